"""Reading partitions: fetch sessions, read-ahead, and batches of records."""

from kohort.client.fetch.batch import Batch
from kohort.client.fetch.fetcher import EARLIEST, Fetcher, OutOfRange
from kohort.client.fetch.response import (
    TOPIC_IDS_SINCE,
    VERSIONS,
    PartitionResponse,
    error_code,
    read_fetch_response,
)
from kohort.client.fetch.session import FINAL_EPOCH, NO_SESSION, FetchRequest, RequestedPartition

__all__ = [
    "EARLIEST",
    "FINAL_EPOCH",
    "NO_SESSION",
    "TOPIC_IDS_SINCE",
    "VERSIONS",
    "Batch",
    "FetchRequest",
    "Fetcher",
    "OutOfRange",
    "PartitionResponse",
    "RequestedPartition",
    "error_code",
    "read_fetch_response",
]
