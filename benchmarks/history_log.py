"""Generates a `__consumer_offsets` as segment files, as large as that of a busy cluster.

    python -m benchmarks.history_log DIRECTORY [--commits 5000000]

10,000 groups, of which the larger ones commit more (zipf 1.1), with 20 partitions each, over 50 log
partitions. Batches have 1 to 3 records (1.7), as the group coordinator writes them. 3 % of them are
of transactions, one in twenty of which is aborted, each with its marker some batches later. One
record in a thousand is a generation of a group with 3 members. Seconds for a million commits.
"""

import argparse
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import crc32c
import numpy as np
from numpy.typing import NDArray

from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    encode,
    pack_offset,
)
from kohort.coordinator_common import partition_for
from kohort.protocol.batch_writing import build
from kohort.protocol.packing import pack_string, pack_varint
from kohort.protocol.records import Record
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.types import TopicPartition

LOG_PARTITIONS: Final = 50
GROUPS: Final = 10_000
TOPICS: Final = 1_000
PARTITIONS: Final = 20
EXPONENT: Final = 1.1
SHARES: Final = (0.5, 0.3, 0.2)
"""Of batches with 1, 2 and 3 records."""
TRANSACTIONAL: Final = 0.03
ABORTED: Final = 0.05
PRODUCERS: Final = 5_000
COMMITS_PER_S: Final = 1_400
"""Of the whole cluster."""
START_MS: Final = 1_767_225_600_000
SAMPLES_EVERY_MS: Final = 300_000
SEGMENT_BYTES: Final = 100 * 1024 * 1024
CHUNK: Final = 60_000
"""Batches that are made at once."""
COMMITS_PER_GENERATION: Final = 1_000

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Written:
    """What was generated."""

    commits: int
    records: int
    batches: int
    bytes: int
    end_ms: int
    """Record time of the end."""


def write(directory: Path, commits: int, seed: int = 1) -> Written:
    """Write about so many commits into `directory/__consumer_offsets-N/`."""
    weights = np.arange(1, GROUPS + 1) ** -EXPONENT
    weights /= weights.sum()
    numbers = np.array([partition_for(_group(each), LOG_PARTITIONS) for each in range(GROUPS)])
    end_ms = START_MS + round(commits / COMMITS_PER_S * 1000)
    written = []
    for number in range(LOG_PARTITIONS):
        groups = np.flatnonzero(numbers == number)
        share = float(weights[groups].sum())
        log = _Log(groups, weights[groups] / share, np.random.default_rng((seed, number)))
        target = directory / f"__consumer_offsets-{number}"
        written.append(log.write(target, round(commits * share), end_ms))
    done, records, batches, size = map(sum, zip(*written, strict=True))
    return Written(done, records, batches, size, end_ms)


def samples_of(written: Written) -> Iterator[Any]:
    """Record batches of samples of all topics each five minutes.

    Ends grow like the offsets of a log partition with the mean number of records, which are what
    is committed: some groups are behind, others are not.
    """
    from kohort.history.sample_rows import Ends, sampled_rows

    partitions = [
        TopicPartition(_topic(number), each)
        for number in range(TOPICS)
        for each in range(PARTITIONS)
    ]
    last = written.records / LOG_PARTITIONS
    for time_ms in range(START_MS, written.end_ms + 1, SAMPLES_EVERY_MS):
        end = round(last * (time_ms - START_MS) / (written.end_ms - START_MS))
        yield sampled_rows(time_ms, {tp: Ends(0, end + tp.partition) for tp in partitions}, {})


def _group(number: int) -> str:
    return f"group-{number:04}"


def _topic(group: int) -> str:
    return f"topic-{group % TOPICS:03}"


def _record(key: bytes, value: bytes) -> bytes:
    """A record with a delta of time and of offset of 0."""
    body = b"\0\0\0" + pack_varint(2 * len(key)) + key + pack_varint(2 * len(value)) + value + b"\0"
    return pack_varint(2 * len(body)) + body


_HEADER: Final = np.dtype([
    ("base", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "u1"), ("crc", ">u4"),
    ("attributes", ">i2"), ("last_delta", ">i4"), ("first_time", ">i8"), ("last_time", ">i8"),
    ("producer", ">i8"), ("epoch", ">i2"), ("sequence", ">i4"), ("count", ">i4"),
])  # fmt: skip
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_CRC_FROM: Final = 21
_BEFORE_LENGTH: Final = 12
_KEY: Final = b"\0\1" + pack_string(_group(0)) + pack_string(_topic(0)) + bytes(4)
_VALUE: Final = pack_offset(0, 1, "", 0, topic_id=UUID(int=0))
_COMMIT: Final = np.frombuffer(_record(_KEY, _VALUE), np.uint8)
_KEY_AT: Final = bytes(_COMMIT).index(_KEY)
_VALUE_AT: Final = bytes(_COMMIT).index(_VALUE, _KEY_AT + len(_KEY))
_COMMIT_FIELDS: Final = {
    "delta": (_KEY_AT - 2, 1),
    "group": (_KEY_AT + 4, len(_group(0))),
    "topic": (_KEY_AT + 6 + len(_group(0)), len(_topic(0))),
    "partition": (_KEY_AT + len(_KEY) - 4, 4),
    "offset": (_VALUE_AT + 2, 8),
    "commit_time": (_VALUE_AT + 2 + 8 + 4 + 1, 8),
    "topic_id": (_VALUE_AT + len(_VALUE) - 16, 16),
}
_MARKERS: Final = np.stack([
    np.frombuffer(_record(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 1)), np.uint8)
    for kind in (0, 1)
])  # fmt: skip
"""Of an abort, of a commit."""


def _big_endian(values: NDArray[Any], type_: str) -> Bytes:
    """The bytes of each number, a row each."""
    swapped = np.ascontiguousarray(values.astype(type_))
    return swapped.view(np.uint8).reshape(len(values), swapped.itemsize)


def _names(texts: Sequence[str]) -> Bytes:
    return np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), -1)


class _Log:
    """One log partition."""

    def __init__(self, groups: Numbers, weights: NDArray[Any], rng: Any) -> None:
        self._rng = rng
        self._groups = groups
        self._ends = np.cumsum(weights)
        self._group_names = _names([_group(each) for each in groups])
        self._topic_names = _names([_topic(each) for each in groups])
        topic_ids = b"".join(uuid5(NAMESPACE_URL, _topic(each)).bytes for each in groups)
        self._topic_ids = np.frombuffer(topic_ids, np.uint8).reshape(len(groups), 16)
        self._next_offset = 0
        self._generations = 0
        self._producers = 0

    def write(self, directory: Path, commits: int, end_ms: int) -> tuple[int, int, int, int]:
        """Write the segments: the commits, records, batches and bytes."""
        directory.mkdir(parents=True)
        files = _Segments(directory)
        done = batches = 0
        while done < commits:
            count = min(CHUNK, int((commits - done) / 1.7) + 1)
            expected = min(count * 1.7 / commits, 1 - done / commits)
            first = START_MS + (end_ms - START_MS) * done / commits
            last = first + (end_ms - START_MS) * expected
            for generation in self._generation_batches(max(count // 600, 1), int(first)):
                files.add(generation, self._next_offset)
                self._next_offset += 1
                batches += 1
            base = self._next_offset
            chunk, chunk_commits, chunk_batches = self._chunk(count, int(first), int(last))
            files.add(chunk, base)
            done += chunk_commits
            batches += chunk_batches
        files.close()
        return done, self._next_offset, batches, files.bytes

    def _chunk(self, count: int, first_ms: int, last_ms: int) -> tuple[Bytes, int, int]:
        """Batches of commits and markers; how many commits and batches."""
        rng = self._rng
        in_transaction = rng.random(count) < TRANSACTIONAL
        markers = int(in_transaction.sum())
        # A marker comes 1 to 20 batches after its transaction.
        places = np.arange(count, dtype=np.float64)
        marker_places = places[in_transaction] + rng.integers(1, 21, markers) + 0.5
        order = np.argsort(np.concatenate([places, marker_places]), kind="stable")
        is_marker = order >= count
        sizes = rng.choice([1, 2, 3], count, p=SHARES)
        counts = np.concatenate([sizes, np.ones(markers, np.int64)])[order]
        record_bytes = np.where(is_marker, _MARKERS.shape[1], len(_COMMIT))
        batch_bytes = _HEADER.itemsize + counts * record_bytes
        starts = np.concatenate([[0], np.cumsum(batch_bytes)])
        bases = self._next_offset + np.concatenate([[0], np.cumsum(counts)])
        times = np.linspace(first_ms, last_ms, len(order)).astype(np.int64)

        producers = np.full(count, -1)
        producers[in_transaction] = (self._producers + np.arange(markers)) % PRODUCERS
        self._producers += markers
        header = np.zeros(len(order), _HEADER)
        header["base"], header["length"] = bases[:-1], batch_bytes - _BEFORE_LENGTH
        header["leader_epoch"], header["magic"] = 1, 2
        header["last_delta"], header["count"] = counts - 1, counts
        header["first_time"] = header["last_time"] = times
        header["producer"] = np.concatenate([producers, producers[in_transaction]])[order]
        header["epoch"] = np.where(header["producer"] < 0, -1, 0)
        header["sequence"] = -1
        attributes = np.where(in_transaction, _TRANSACTIONAL, 0)
        ends = np.full(markers, _TRANSACTIONAL | _CONTROL)
        header["attributes"] = np.concatenate([attributes, ends])[order]

        chunk = np.empty(starts[-1], np.uint8)
        _put(chunk, starts[:-1], header.view(np.uint8).reshape(len(order), -1))
        kinds = (rng.random(markers) >= ABORTED).astype(np.int64)
        at_marker = np.flatnonzero(is_marker)
        records_at = starts[:-1] + _HEADER.itemsize
        _put(chunk, records_at[at_marker], _MARKERS[kinds[order[at_marker] - count]])
        at_batch = np.flatnonzero(~is_marker)
        for nth in range(3):
            at = at_batch[counts[at_batch] > nth]
            rows = self._commits(nth, bases[at] + nth, times[at])
            _put(chunk, records_at[at] + nth * len(_COMMIT), rows)
        _set_crcs(chunk, starts)
        self._next_offset = int(bases[-1])
        return chunk, int(sizes.sum()), len(order)

    def _commits(self, nth: int, offsets: Numbers, times: Numbers) -> Bytes:
        """Records at these log offsets, each the nth of its batch. What is committed is the
        offset in the log, which ascends for every partition.
        """
        group = np.searchsorted(self._ends, self._rng.random(len(offsets)), side="right")
        group = np.minimum(group, len(self._groups) - 1)
        partition = self._rng.integers(0, PARTITIONS, len(offsets))
        fields = {
            "delta": np.full((len(offsets), 1), 2 * nth, np.uint8),
            "group": self._group_names[group],
            "topic": self._topic_names[group],
            "partition": _big_endian(partition, ">i4"),
            "offset": _big_endian(offsets, ">i8"),
            "commit_time": _big_endian(times, ">i8"),
            "topic_id": self._topic_ids[group],
        }
        rows = np.repeat(_COMMIT[None], len(offsets), axis=0)
        for name, values in fields.items():
            start, size = _COMMIT_FIELDS[name]
            rows[:, start : start + size] = values
        return rows

    def _generation_batches(self, count: int, time_ms: int) -> Iterator[bytes]:
        """The next generations of groups, the largest groups first, over and over."""
        for _ in range(count):
            at = self._generations % len(self._groups)
            number = self._generations // len(self._groups) + 1
            self._generations += 1
            record = _generation(int(self._groups[at]), number, time_ms)
            key, value = encode(record)
            yield bytes(
                build([Record(key, value, timestamp=time_ms)], base_offset=self._next_offset)
            )


def _generation(group: int, number: int, time_ms: int) -> GroupMetadataRecord:
    """Three members, one of whom is another one in each generation."""
    topic = _topic(group)
    subscription = encode_subscription(Subscription(topics=(topic,)))
    names = ["a", "b", f"c{number}"]
    members = tuple(
        MemberMetadata(
            *(f"{_group(group)}-{name}", None, f"client-{name[0]}", f"/10.0.0.{at}"),
            *(300_000, 45_000, subscription),
            encode_assignment(
                Assignment(
                    partitions=tuple(
                        TopicPartition(topic, each) for each in range(at, PARTITIONS, 3)
                    )
                )
            ),
        )
        for at, name in enumerate(names)
    )
    value = GroupMetadataValue("consumer", number, "range", members[0].member_id, time_ms, members)
    return GroupMetadataRecord(GroupMetadataKey(_group(group)), value)


def _put(buffer: Bytes, starts: Numbers, rows: Bytes) -> None:
    """Put each row at its place."""
    buffer[starts[:, None] + np.arange(rows.shape[1])] = rows


def _set_crcs(chunk: Bytes, starts: Numbers) -> None:
    view = memoryview(chunk)  # type: ignore[arg-type]
    bounds = starts.tolist()
    crc = crc32c.crc32c
    values = [crc(view[start + _CRC_FROM : end]) for start, end in pairwise(bounds)]
    _put(chunk, starts[:-1] + _CRC_FROM - 4, _big_endian(np.array(values, np.int64), ">u4"))


class _Segments:
    """The segment files of a log partition."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: Any = None
        self._size = 0
        self.bytes = 0

    def add(self, data: Bytes | bytes, base: int) -> None:
        """Append batches that begin at this offset."""
        if self._file is None or self._size + len(data) > SEGMENT_BYTES:
            self.close()
            self._file, self._size = (self._directory / f"{base:020}.log").open("wb"), 0
        self._file.write(data)
        self._size += len(data)
        self.bytes += len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history_log")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--commits", type=int, default=5_000_000)
    options = parser.parse_args()
    began = time.monotonic()
    written = write(options.directory, options.commits)
    print(f"{written} in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
