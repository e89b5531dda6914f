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
from kohort.client.config.client_options import (
    ClientOptions,
    ConnectionOptions,
    ReaderOptions,
    split_options,
)
from kohort.client.config.consumer_config import ConsumerConfig
from kohort.client.config.consumer_options import ConsumerOptions
from kohort.client.config.group_config import GroupConfig, GroupEvent
from kohort.client.config.group_options import GroupOptions
from kohort.client.config.producer_config import Acks, Partitioner, PartitionerName, ProducerConfig
from kohort.client.config.producer_options import ProducerOptions
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
    "ConsumerConfig",
    "ConsumerOptions",
    "GroupConfig",
    "GroupEvent",
    "GroupOptions",
    "OutOfRange",
    "Partitioner",
    "PartitionerName",
    "ProducerConfig",
    "ProducerOptions",
    "ReaderOptions",
    "StartOffset",
    "plain_start_offset",
    "split_options",
    "validate_flag",
    "validate_int",
    "validate_names",
    "validate_one_of",
    "validate_text",
]
