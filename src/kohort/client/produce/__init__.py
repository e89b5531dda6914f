"""Sends records: batches, idempotence, delivery results and dead letters."""

from kohort.client.config import Partitioner, PartitionerName
from kohort.client.produce.dead_letters import DeadLetters
from kohort.client.produce.delivery import Delivery, RecordMetadata
from kohort.client.produce.producer import Producer
from kohort.client.produce.record_arguments import (
    Headers,
    RecordOptions,
    as_bytes,
    as_headers,
    as_partition,
    as_timestamp,
)
from kohort.client.produce.transaction import Transaction

__all__ = [
    "DeadLetters",
    "Delivery",
    "Headers",
    "Partitioner",
    "PartitionerName",
    "Producer",
    "RecordMetadata",
    "RecordOptions",
    "Transaction",
    "as_bytes",
    "as_headers",
    "as_partition",
    "as_timestamp",
]
