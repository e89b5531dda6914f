"""Parts of responses that several handlers share."""

from kohort.server.responses import authorized_operations
from kohort.server.responses.gather import Gather
from kohort.server.responses.partition_errors import Refusals
from kohort.server.responses.produce import FIRST_WITH_IDS, Produced, pack
from kohort.server.responses.replicas import validate_replicas

__all__ = [
    "FIRST_WITH_IDS",
    "Gather",
    "Produced",
    "Refusals",
    "authorized_operations",
    "pack",
    "validate_replicas",
]
