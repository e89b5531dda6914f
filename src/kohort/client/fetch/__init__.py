"""Reads partitions: fetch sessions, batches fetched ahead, and requests of one partition."""

from kohort.client.fetch.batch import Batch
from kohort.client.fetch.deserialization import deserialize
from kohort.client.fetch.fetcher import EARLIEST, Fetcher
from kohort.client.fetch.request import FetchSettings, fetch_partition
from kohort.client.fetch.response import PartitionResponse, error_code
from kohort.client.fetch.session import RequestedPartition

__all__ = [
    "EARLIEST",
    "Batch",
    "FetchSettings",
    "Fetcher",
    "PartitionResponse",
    "RequestedPartition",
    "deserialize",
    "error_code",
    "fetch_partition",
]
