"""Checks of a server's data against what clients were promised."""

from collections import Counter
from collections.abc import Iterator

from kohort.coordinator.records import OffsetCommitRecord, decode
from kohort.errors import KafkaError
from kohort.log.base import Log
from kohort.protocol.batches import Header, decode_records, iterate
from kohort.server.broker import Broker
from kohort.server.metadata import OFFSETS_TOPIC
from kohort.testing.embedded.topic_records import read_records
from kohort.testing.simulation.ledger import Ledger, ProducedBatch
from kohort.types import TopicPartition

_CHUNK_BYTES = 1 << 20


def check_promises(broker: Broker, ledger: Ledger) -> None:
    """Report acknowledged commits and records that the server does not have."""
    _check_commits(broker, ledger)
    for partition, acknowledged in ledger.produced.items():
        topic = broker.topics.get(partition.topic)
        if topic is not None:
            _check_records(topic.partitions[partition.partition], acknowledged, ledger)


def _check_commits(broker: Broker, ledger: Ledger) -> None:
    for (group_id, partition), acknowledged in ledger.commits.items():
        group = broker.groups.group(group_id)
        found = None if group is None else dict(group.offsets.items()).get(partition)
        offset = None if found is None else found.offset
        if group_id in ledger.rewinding_groups:
            is_kept = offset in ledger.requested[group_id, partition]
        else:
            is_kept = offset is not None and offset >= acknowledged
        if not is_kept:
            ledger.report(
                "acknowledged commits",
                f"group {group_id} has committed {acknowledged} of {partition}, "
                f"and the server has {offset}",
            )


def _check_records(log: Log, acknowledged: dict[ProducedBatch, int], ledger: Ledger) -> None:
    stored: dict[ProducedBatch, list[int]] = {}
    for header in _headers(log):
        batch = ProducedBatch(
            header.producer_id, header.producer_epoch, header.base_sequence, header.crc
        )
        stored.setdefault(batch, []).append(header.base_offset)
    for batch, base_offset in acknowledged.items():
        if 0 <= base_offset < log.start_offset:
            continue  # deleted by retention
        found = stored.get(batch, [])
        if base_offset not in (-1, *found) or not found:
            ledger.report(
                "acknowledged records",
                f"{log.topic_partition} has acknowledged {batch} at offset {base_offset}, "
                f"and has it at {found}",
            )
    for batch, offsets in stored.items():
        if batch.producer_id >= 0 and batch.base_sequence >= 0 and len(offsets) > 1:
            ledger.report(
                "no doubled records", f"{log.topic_partition} has {batch} at offsets {offsets}"
            )


def check_doubled(broker: Broker, ledger: Ledger) -> None:
    """Report records of idempotent producers that are in a topic more often than they were sent."""
    for topic in sorted({topic for topic, _, _ in ledger.sent_records}):
        try:
            records = read_records(broker, topic)
        except KafkaError:
            continue  # it was deleted
        found = Counter((topic, record.key, record.value) for record in records)
        for record, count in found.items():
            if 0 < ledger.sent_records[record] < count:
                ledger.report("no doubled records", f"{record} was stored {count} times")


class CommitHistory:
    """Checks that committed offsets go forward, over all processes of a server."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._latest: dict[tuple[str, TopicPartition], int] = {}
        self._read: dict[TopicPartition, int] = {}
        """Offset up to which each log was read."""

    def begin(self) -> None:
        """Another process serves: it may have lost what was not synced."""
        self._latest.clear()
        self._read.clear()

    def check(self, broker: Broker) -> None:
        """Read on in the log of committed offsets, and report each that is lower than the former.

        Compaction leaves a part of them, in the same order.
        """
        topic = broker.topics.get(OFFSETS_TOPIC)
        for log in () if topic is None else topic.partitions:
            start = self._read.get(log.topic_partition, 0)
            for end, key, offset in _commits(log, start):
                self._read[log.topic_partition] = end
                before = self._latest.pop(key, -1)
                if offset is None:
                    continue
                group, partition = key
                if offset < before and group not in self._ledger.rewinding_groups:
                    self._ledger.report(
                        "commits go forward",
                        f"group {group} has committed {before} and then {offset} of {partition}",
                    )
                self._latest[key] = offset


def _commits(log: Log, start: int) -> Iterator[tuple[int, tuple[str, TopicPartition], int | None]]:
    """Each commit outside of transactions: where its batch ends, group and partition, its offset.

    The first one is of a batch that begins at `start` or behind it.
    """
    for data in _chunks(log, start):
        for position, header in iterate(data):
            if header.base_offset < start or header.is_control or header.is_transactional:
                continue
            for record in decode_records(data, position):
                row = None if record.key is None else decode(record.key, record.value)
                if isinstance(row, OffsetCommitRecord):
                    group, topic, partition = row.key
                    offset = None if row.value is None else row.value.offset
                    yield header.last_offset + 1, (group, TopicPartition(topic, partition)), offset


def _headers(log: Log) -> Iterator[Header]:
    for data in _chunks(log, log.start_offset):
        for _, header in iterate(data):
            yield header


def _chunks(log: Log, start: int) -> Iterator[bytes]:
    """The batches from an offset on that readers see."""
    offset = max(start, log.start_offset)
    while offset < log.high_watermark:
        data = bytes(log.read(offset, _CHUNK_BYTES))
        if not data:
            return
        yield data
        *_, (_, last) = iterate(data)
        offset = last.last_offset + 1
