"""Fetch on the server: sessions (KIP-227), reading within limits, the encoded response."""

from kohort.server.fetch.context import NO_SESSION, FetchContext
from kohort.server.fetch.partitions import PartitionKey
from kohort.server.fetch.reading import (
    FetchLimits,
    PartitionRequest,
    ReadResult,
    TopicKey,
    read_all,
)
from kohort.server.fetch.response import FIRST_WITH_IDS, pack, pack_error
from kohort.server.fetch.sessions import FINAL_EPOCH, FetchSessions

__all__ = [
    "FINAL_EPOCH",
    "FIRST_WITH_IDS",
    "NO_SESSION",
    "FetchContext",
    "FetchLimits",
    "FetchSessions",
    "PartitionKey",
    "PartitionRequest",
    "ReadResult",
    "TopicKey",
    "pack",
    "pack_error",
    "read_all",
]
