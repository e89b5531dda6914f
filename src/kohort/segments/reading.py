"""Reads a range of offsets of a replica as Arrow record batches.

Damage never leads to wrong keys, values and times. A batch whose CRC is wrong is left out, and the
next one is read. Where there is no batch, the rest of the segment is left out, and the next segment
is read. The offset of a batch is outside its CRC: a wrong one is found if the offsets around it
tell, and the batch then counts as none.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import kernels
from kohort.columnar.damaged_batches import Damage, damaged_row, decode_each
from kohort.columnar.decoding import decode_batches
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol.compression import MAX_INFLATED
from kohort.segments.batch_walk import Chunk, NoBatch, NoBatchError, walk
from kohort.segments.offset_index import position_before
from kohort.segments.replica import Replica
from kohort.segments.segment import SEGMENT, Segment
from kohort.segments.storage import File
from kohort.util.text import offset_span

_MAX_CHANGES: Final = 1_000
"""Times that files of a range may change while they are read."""


def _refuse(loss: str) -> NoReturn:
    raise KohortError(loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """Settings of a read, and of its losses: records that cannot be read."""

    include_headers: bool = False
    include_batch_fields: bool = True
    check_crcs: bool = True
    max_inflated: int = MAX_INFLATED
    """Largest size of a batch after decompression, in bytes."""
    on_loss: Callable[[str], None] = _refuse
    """Called with the reason when records cannot be read. If it returns, they are left out."""
    damaged_rows: bool = False
    """Damage becomes a row instead: without key, `control` = "damaged", the reason as its value.

    So does a batch that is too large, or of an unknown compression type. Needs
    `include_batch_fields`.
    """


def read(
    replica: Replica, start: int, end: int, settings: ReadSettings
) -> Iterator[pa.RecordBatch]:
    """The records of `replica` with offsets in [start, end), in order.

    Raises KohortError if a file cannot be read, and what `on_loss` raises; without `damaged_rows`
    KafkaError MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE.
    """
    return _Reading(replica, start, end, settings).batches()


class _Reading:
    """The reading of one range."""

    def __init__(self, replica: Replica, start: int, end: int, settings: ReadSettings) -> None:
        self._replica = replica
        self._offset = start
        """The next offset to read."""
        self._end = end
        self._settings = settings
        self._changes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        while self._offset < self._end:
            segments = self._replica.segments()
            number = bisect_right(segments, self._offset, key=lambda each: each.base_offset) - 1
            if number < 0:
                self._skip_deleted(segments)
                continue
            segment = segments[number]
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            with self._replica.opened(segment) as file:
                if file is None:
                    self._count_change(segment)
                    continue
                no_batch = yield from self._segment(file, segment, following)
            # Up to its end, a log had whole batches when that was determined.
            if no_batch is not None and self._offset < self._end:
                if self._replica.segments() != segments:
                    self._count_change(segment)
                    continue
                end = self._end if following is None else min(following, self._end)
                yield from self._damage(segment, no_batch.position, no_batch.problem, end)
            if following is not None:
                self._offset = max(self._offset, following)
            elif self._offset < self._end and self._has_ended(segment):
                return

    def _count_change(self, segment: Segment) -> None:
        """The files have changed since they were listed, and are listed again."""
        self._changes += 1
        if self._changes == _MAX_CHANGES:
            raise KohortError(f"{self._replica}/{segment.name} changes faster than it can be read")

    def _skip_deleted(self, segments: list[Segment]) -> None:
        first = segments[0].base_offset if segments else self._end
        self._settings.on_loss(
            f"{self._replica} begins at offset {first} now: retention or a deletion took "
            f"{offset_span(self._offset, min(first, self._end))}"
        )
        self._offset = first

    def _has_ended(self, segment: Segment) -> bool:
        """Whether no segment follows `segment`, the last one that was listed, which ended early."""
        segments = self._replica.segments()
        if segments and segments[-1].base_offset > segment.base_offset:
            return False
        self._settings.on_loss(
            f"{self._replica} ends at offset {self._offset} now: its log was cut, and has no "
            f"{offset_span(self._offset, self._end)}"
        )
        return True

    def _segment(
        self, file: File, segment: Segment, following: int | None
    ) -> Generator[pa.RecordBatch, None, NoBatch | None]:
        """Read up to the end of the range, or of the segment; returns what is no batch.

        Raises OSError.
        """
        position = 0
        if self._offset > segment.base_offset:
            position = position_before(self._replica.directory, file, segment, self._offset)
        # A segment that is about to replace others has the records of all of them.
        end_offset = following if SEGMENT.fullmatch(segment.name) else None
        try:
            for chunk in walk(file, segment, position, end_offset):
                yield from self._chunk(chunk, segment)
                if self._offset >= self._end:
                    break
        except NoBatchError as error:
            return error.found
        return None

    def _chunk(self, chunk: Chunk, segment: Segment) -> Iterator[pa.RecordBatch]:
        end = min(int(chunk.table[-1, kernels.LAST_OFFSET]) + 1, self._end)
        if end <= self._offset:
            return
        try:
            yield from self._decoded(chunk.data, self._offset, end)
        except KafkaError as error:
            if not self._is_damage(error):
                raise
            yield from self._each_batch(chunk, segment)
        self._offset = max(self._offset, end)

    def _is_damage(self, error: KafkaError) -> bool:
        """Whether the records of a batch with this error are left out."""
        return error.code is ErrorCode.corrupt_message or self._settings.damaged_rows

    def _decoded(self, data: memoryview, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets in [start, end); only whole record batches precede an error."""
        settings = self._settings
        tp = self._replica.partition
        for batch in decode_batches(
            data,
            topic=tp.topic,
            partition=tp.partition,
            from_offset=start,
            to_offset=end,
            include_headers=settings.include_headers,
            include_batch_fields=settings.include_batch_fields,
            check_crcs=settings.check_crcs,
            max_inflated=settings.max_inflated,
        ):
            self._offset = batch.column("offset")[-1].as_py() + 1
            yield batch

    def _each_batch(self, chunk: Chunk, segment: Segment) -> Iterator[pa.RecordBatch]:
        """Read the rest of a chunk with a damaged batch, which is left out."""
        for part in decode_each(
            chunk.data, chunk.table, self._offset, self._end, self._decoded, self._is_damage
        ):
            if isinstance(part, Damage):
                self._offset = max(self._offset, part.start)
                position = chunk.position + part.position
                yield from self._damage(segment, position, part.problem, part.end)
            else:
                yield part

    def _damage(
        self, segment: Segment, position: int, problem: str, end: int
    ) -> Iterator[pa.RecordBatch]:
        """Report that the records from the next offset up to `end` cannot be read."""
        text = (
            f"{self._replica}/{segment.name} is damaged at position {position}: {problem}; lost "
            f"are {offset_span(self._offset, end)}"
        )
        if self._settings.damaged_rows:
            yield damaged_row(
                self._replica.partition,
                self._offset,
                text,
                include_headers=self._settings.include_headers,
            )
        else:
            self._settings.on_loss(text)
        self._offset = max(self._offset, end)
