"""The decisions of `Shard.handle`: records to log, replies, timers, and markers to write."""

from dataclasses import dataclass
from typing import NamedTuple

from kohort.coordinator_common import Cancel, Timer
from kohort.transactions.records import Partitions, TransactionRecord
from kohort.transactions.requests import Response
from kohort.types import Reply


@dataclass(frozen=True, slots=True)
class TransactionTimesOut:
    """Timer, and event when it is due: the timeout of this id's transaction has passed."""

    transactional_id: str


class Markers(NamedTuple):
    """An ending transaction: each of its partitions needs a marker.

    Once all are written, the runtime passes `MarkersWritten` to `handle`.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    """2 if the end bumped the epoch, else 0."""
    partitions: Partitions


class Result(NamedTuple):
    """The whole effect of one event. Records are appended before all other effects."""

    records: tuple[TransactionRecord, ...] = ()
    replies: tuple[Reply[Response], ...] = ()
    timers: tuple[Timer[TransactionTimesOut] | Cancel[TransactionTimesOut], ...] = ()
    markers: tuple[Markers, ...] = ()
