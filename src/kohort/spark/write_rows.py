"""What a task does with the rows it is given before it sends any: which topic and partition each is for."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.errors import ConfigError

RecordBatch: TypeAlias = Any
Counts: TypeAlias = Callable[[str], int]
"""How many partitions a topic has."""

_COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition")


def by_topic(batch: RecordBatch, topic: str | None) -> Iterator[tuple[str, RecordBatch]]:
    """The rows of each topic, without the column `topic`. Raises ConfigError if a row has none."""
    names = [name for name in _COLUMNS if name in batch.schema.names]
    if topic is not None:
        yield topic, batch.select(names)
        return
    column = batch["topic"]
    if column.null_count:
        raise ConfigError("a row has no topic: its column topic is null; fill it, or set option topic for all rows")
    found = pc.unique(column).to_pylist()
    for each in found:
        of_topic = batch if len(found) == 1 else batch.filter(pc.equal(column, each))
        yield each, of_topic.select(names)


def validate_partitions(topic: str, batch: RecordBatch, count: Counts) -> None:
    """Raises ConfigError for a row whose `partition` the topic does not have."""
    column = batch["partition"]
    wrong = column.filter(pc.or_(pc.less(column, 0), pc.greater_equal(column, count(topic))))
    if len(wrong):
        there = count(topic)
        raise ConfigError(
            f"a row is for partition {wrong[0]} of topic {topic}, which has the partitions 0 to {there - 1}:"
            " correct the column partition, or add partitions to the topic"
        )


class Spool:
    """Rows that wait: in memory as long as they are few, then in a file on the worker's disk."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._batches: list[RecordBatch] = []
        self._file: Any = None
        self._writer: Any = None
        self.size = 0
        """Bytes, about."""

    def add(self, batch: RecordBatch) -> None:
        """Keep it."""
        self.size += batch.nbytes
        if self.size <= self._memory_bytes:
            self._batches.append(batch)
            return
        if self._writer is None:
            self._file = tempfile.TemporaryFile(prefix="kohort-spool-")  # noqa: SIM115, closed when it was read
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)

    def __iter__(self) -> Iterator[RecordBatch]:
        yield from self._batches
        self._batches.clear()
        if self._writer is not None:
            self._writer.close()
            self._file.seek(0)
            with self._file, pa.ipc.open_stream(self._file) as reader:
                yield from reader

    def packed(self) -> bytes:
        """All of it, as an Arrow stream; only while it is in memory."""
        sink = pa.BufferOutputStream()
        if self._batches:
            with pa.ipc.new_stream(sink, self._batches[0].schema) as writer:
                for batch in self._batches:
                    writer.write_batch(batch)
        return bytes(memoryview(sink.getvalue()))


def unpacked(stream: bytes) -> Iterator[RecordBatch]:
    """What `Spool.packed` packed."""
    if stream:
        with pa.ipc.open_stream(stream) as reader:
            yield from reader
