"""The decisions of `Shard.handle`: records to log, replies, timers, and markers to have written."""

from dataclasses import dataclass
from typing import NamedTuple

from kohort.coordinator_common import Cancel, Timer
from kohort.transactions.records import Partitions, TransactionRecord
from kohort.transactions.requests import Response
from kohort.types import Reply


@dataclass(frozen=True, slots=True)
class TransactionTimesOut:
    """Timer, and event when it is due: the transaction of this id was open for its timeout."""

    transactional_id: str


class Markers(NamedTuple):
    """A transaction that ends: each of its partitions needs a marker.

    `MarkersWritten` is the event to bring to `handle` once all have it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    """2 if the epoch was bumped for the end, else 0."""
    partitions: Partitions


class Result(NamedTuple):
    """The whole effect of one event. Records are appended before anything else is done."""

    records: tuple[TransactionRecord, ...] = ()
    replies: tuple[Reply[Response], ...] = ()
    timers: tuple[Timer[TransactionTimesOut] | Cancel[TransactionTimesOut], ...] = ()
    markers: tuple[Markers, ...] = ()
