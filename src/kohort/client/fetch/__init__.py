"""Reads partitions: fetch sessions, batches fetched ahead, and requests of one partition."""

from kohort.client.fetch.batch import Batch
from kohort.client.fetch.deserialization import deserialize
from kohort.client.fetch.fetcher import EARLIEST, Fetcher
from kohort.client.fetch.request import FetchSettings, fetch, fetch_partition
from kohort.client.fetch.response import PartitionResponse, error_code
from kohort.client.fetch.session import FINAL_EPOCH, NO_SESSION, FetchRequest, RequestedPartition

__all__ = [
    "EARLIEST",
    "FINAL_EPOCH",
    "NO_SESSION",
    "Batch",
    "FetchRequest",
    "FetchSettings",
    "Fetcher",
    "PartitionResponse",
    "RequestedPartition",
    "deserialize",
    "error_code",
    "fetch",
    "fetch_partition",
]
