"""Random histories of transactions, crashes and compactions, against a model.

Readers of committed records see exactly those, in order; the last stable offset and the index of
aborted transactions are those of the model, whether the log goes on or was opened again.
"""

import asyncio
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.log import compaction
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.protocol import batches
from kohort.protocol.aborted_transactions import committed_batches
from kohort.protocol.batches import Record

from .conftest import DAY, NOW, ORDERS

PRODUCERS = st.integers(1, 3)
KEYS = st.integers(0, 4)
OPERATIONS = st.one_of(
    st.tuples(st.just("plain"), KEYS),
    st.tuples(st.just("write"), PRODUCERS, KEYS),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
    st.tuples(st.sampled_from(["close", "kill", "crash", "trim", "compact", "take back"])),
)


class Model:
    """What the log must show."""

    def __init__(self):
        self.start = self.end = 0
        self.decided = {}
        """Offset to (key, value) of the records that are plain or committed."""
        self.open = {}
        """Producer to its offsets and records, as in `decided`."""
        self.aborted = []
        """(producer, first offset, marker, last stable offset)"""

    @property
    def stable(self):
        first = min((min(records) for records in self.open.values()), default=self.end)
        return max(first, self.start)

    def finish(self, producer_id, commit):
        records = self.open.pop(producer_id, {})
        first = min((min(each) for each in self.open.values()), default=self.end + 1)
        if commit:
            self.decided |= records
        elif records:
            self.aborted.append((producer_id, min(records), self.end, first))
        self.end += 1

    def readable(self):
        return [
            (offset, *self.decided[offset])
            for offset in sorted(self.decided)
            if self.start <= offset < self.stable
        ]


class History:
    """A log in a directory, and its model."""

    def __init__(self, path, config):
        self.path = Path(path)
        self.config = config
        self.model = Model()
        self.sequences = {}
        self.now = NOW
        self.runs = 0
        self.directory = LocalDirectory(self.path / "0")
        self.log = self.directory.open(ORDERS, config)

    def run(self, operation, *arguments):
        getattr(self, operation.replace(" ", "_"))(*arguments)

    def plain(self, key):
        self.model.decided[self.model.end] = self.append(key)
        self.model.end += 1

    def write(self, producer_id, key):
        sequence = self.sequences.get(producer_id, 0)
        records = self.model.open.setdefault(producer_id, {})
        records[self.model.end] = self.append(
            key,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            attributes=batches.TRANSACTIONAL,
        )
        self.sequences[producer_id] = sequence + 1
        self.model.end += 1

    def append(self, key, **producer):
        record = b"k%d" % key, b"%08d" % self.model.end
        batch = batches.build([Record(*record, (), self.now)], **producer)
        guard = None
        if producer:
            guard = self.log.begin_verification(
                producer["producer_id"], 0, producer["base_sequence"], self.now, tv2=False
            )
        assert self.log.append(batch, self.now, verified=guard).base_offset == self.model.end
        return record

    def end(self, producer_id, commit):
        assert self.mark(producer_id, commit) == self.model.end
        self.model.finish(producer_id, commit)

    def mark(self, producer_id, commit):
        return self.log.append_marker(
            producer_id,
            0,
            commit=commit,
            coordinator_epoch=0,
            transaction_version=1,
            timestamp=self.now,
        )

    def close(self):
        self.directory.close()
        self.reopen()

    def reopen(self):
        self.directory = LocalDirectory(self.path / str(self.runs))
        self.log = self.directory.open(ORDERS, self.config)

    def kill(self):
        former, self.runs = self.runs, self.runs + 1
        shutil.copytree(self.path / str(former), self.path / str(self.runs))
        self.directory.close()
        self.reopen()

    def crash(self):
        former, self.runs = self.runs, self.runs + 1
        left = self.path / str(self.runs)
        shutil.copytree(self.path / str(former), left)
        self.directory.close()
        (left / ".lock").write_text("1\nan earlier start of the machine")
        self.reopen()

    def trim(self):
        self.model.start = (self.model.start + self.model.end) // 2
        self.log.trim(self.model.start)

    def take_back(self):
        """Records that were not durable are removed."""
        self.append(0)
        for producer_id in (1, 2, 3):
            self.mark(producer_id, producer_id == 2)
        self.log.owner_sync_failed(OSError(5, "broken"), self.model.end)
        self.log.retry_sync()()
        self.log.sync_resumed()

    def compact(self):
        asyncio.run(self.log.compact(self.now))
        self.now += DAY // 2

    def read(self, max_bytes):
        """(offset, key, value) of what a reader of committed records gets."""
        offset, found = self.log.start_offset, []
        while True:
            data, aborted = self.log.read_committed(offset, max_bytes)
            if not data:
                assert offset >= self.log.last_stable_offset
                return found
            data = bytes(data)
            listed = [
                (transaction.producer_id, transaction.first_offset) for transaction in aborted
            ]
            for position, _ in committed_batches(data, listed):
                found += [
                    (record.offset, record.key, record.value)
                    for record in batches.decode_records(data, position)
                    if record.offset >= offset
                ]
            offset = [header for _, header in batches.iterate(data)][-1].last_offset + 1


def indexed(log):
    return [tuple(each) for segment in log.segments for each in segment.aborted.entries()]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(OPERATIONS, max_size=60), st.sampled_from([400, 1_000, 1 << 20]))
def test_a_log_that_is_not_compacted(operations, segment_bytes):
    with TemporaryDirectory() as path:
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200, retention_ms=-1)
        history = History(path, config)
        for operation in operations:
            history.run(*operation)
            assert history.log.last_stable_offset == history.model.stable
            assert history.log.high_watermark == history.model.end
        assert history.read(1 << 20) == history.read(1) == history.model.readable()
        first = history.log.segments[0].base_offset
        assert indexed(history.log) == [
            transaction for transaction in history.model.aborted if transaction[2] >= first
        ]
        history.directory.close()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(OPERATIONS, max_size=80), st.sampled_from([400, 1_000]), st.sampled_from([1, 3, 99])
)
def test_a_log_that_is_compacted(operations, segment_bytes, most_keys):
    with TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "MAX_KEYS", most_keys)
        config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=200,
            cleanup_policy=frozenset({"compact"}),
            min_cleanable_dirty_ratio=0.0,
        )
        history = History(path, config)
        for operation in operations:
            history.run(*operation)
            assert history.log.last_stable_offset == history.model.stable
        for operation in ("compact", "kill", "compact", "close"):
            history.run(operation)
            readable = history.model.readable()
            found = history.read(1 << 20)
            assert found == history.read(1)
            assert set(found) <= set(readable)
            assert latest(found) == latest(readable)
            assert history.log.last_stable_offset == history.model.stable
        history.directory.close()


def latest(records):
    return {key: value for _, key, value in records}
