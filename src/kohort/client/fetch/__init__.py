"""Reading partitions: fetch sessions, read-ahead, and batches of records."""

from kohort.client.fetch.batch import Batch
from kohort.client.fetch.fetcher import EARLIEST, Fetcher, OutOfRange
from kohort.client.fetch.response import (
    TOPIC_IDS_SINCE,
    VERSIONS,
    PartitionAnswer,
    error_code,
    read_fetch_answer,
)
from kohort.client.fetch.session import FINAL_EPOCH, NO_SESSION, Asked, FetchRequest

__all__ = [
    "EARLIEST",
    "FINAL_EPOCH",
    "NO_SESSION",
    "TOPIC_IDS_SINCE",
    "VERSIONS",
    "Asked",
    "Batch",
    "FetchRequest",
    "Fetcher",
    "OutOfRange",
    "PartitionAnswer",
    "error_code",
    "read_fetch_answer",
]
