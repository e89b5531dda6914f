"""The configuration of clients, producers and groups: types, defaults, and their checks."""

from kohort.client.config.client_config import (
    MAX_MS,
    UNIX,
    Address,
    ClientConfig,
    validate_flag,
    validate_int,
    validate_names,
    validate_one_of,
    validate_text,
)
from kohort.client.config.client_options import ClientOptions, ConnectionOptions, ReaderOptions
from kohort.client.config.group_config import GroupConfig, GroupEvent
from kohort.client.config.group_options import GroupOptions
from kohort.client.config.producer_config import Acks, ProducerConfig
from kohort.client.config.start_offset import (
    OUT_OF_RANGE,
    OutOfRange,
    StartOffset,
    plain_start_offset,
)

__all__ = [
    "MAX_MS",
    "OUT_OF_RANGE",
    "UNIX",
    "Acks",
    "Address",
    "ClientConfig",
    "ClientOptions",
    "ConnectionOptions",
    "GroupConfig",
    "GroupEvent",
    "GroupOptions",
    "OutOfRange",
    "ProducerConfig",
    "ReaderOptions",
    "StartOffset",
    "plain_start_offset",
    "validate_flag",
    "validate_int",
    "validate_names",
    "validate_one_of",
    "validate_text",
]
