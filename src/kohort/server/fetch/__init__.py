"""Fetch on the server: sessions (KIP-227), reading within limits, the encoded response."""

from kohort.server.fetch.context import MAX_PARTITIONS_OF_SESSION, NO_SESSION, FetchContext
from kohort.server.fetch.partitions import PartitionKey
from kohort.server.fetch.reading import (
    READ_COMMITTED,
    FetchLimits,
    FetchPartitionData,
    PartitionRequest,
    ReadResult,
    TopicKey,
    read_all,
)
from kohort.server.fetch.response import (
    CURRENT_LEADER_SINCE,
    TOPIC_IDS_SINCE,
    joined,
    pack,
    pack_error,
)
from kohort.server.fetch.sessions import FINAL_EPOCH, FetchSessions

__all__ = [
    "CURRENT_LEADER_SINCE",
    "FINAL_EPOCH",
    "MAX_PARTITIONS_OF_SESSION",
    "NO_SESSION",
    "READ_COMMITTED",
    "TOPIC_IDS_SINCE",
    "FetchContext",
    "FetchLimits",
    "FetchPartitionData",
    "FetchSessions",
    "PartitionKey",
    "PartitionRequest",
    "ReadResult",
    "TopicKey",
    "joined",
    "pack",
    "pack_error",
    "read_all",
]
