"""Fetch responses with damaged batches: what of them can be read, and where the next one begins.

Size and base offset of a batch are outside its CRC. A wrong size leads to something that is no
batch. A wrong base offset is found if the offsets around it tell.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kohort.columnar import kernels
from kohort.columnar.damaged_batches import Damage, Decode, damaged_row, decode_each
from kohort.columnar.payloads import as_bytes, crcs_are_right
from kohort.columnar.selection import Table, rising, scan, scan_valid
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition
from kohort.util.text import offset_span

_END: Final = 2**63 - 1


class DamagedLogError(KohortError):
    """A broker serves something that is no record batch: how long it is, is unknown."""


class Readable(NamedTuple):
    """The part of a Fetch response that is read before the next request."""

    records: memoryview
    """Whole batches, in order; some may be damaged."""
    end: int
    """The offset behind them."""
    next_offset: int
    """The offset of the next request: what is between is lost."""
    problem: str | None = None
    """Why it is lost."""


def readable(
    records: memoryview, offset: int, tp: TopicPartition, *, begins_batch: bool
) -> Readable:
    """The batches of a Fetch response for `offset`; none if the response is empty.

    A damaged batch at their end is left to the next response, where another one follows it and
    tells where it ends. `begins_batch`: whether all batches before have ended at `offset`.

    Raises DamagedLogError if the response begins with something else than a batch; KafkaError
    MESSAGE_TOO_LARGE if it has only a part of a batch.
    """
    table, invalid = scan_valid(as_bytes(records))
    while len(table) > 1 and _base(table, 1) <= offset:
        if _base(table, 0) <= offset and _is_right(records, table, 0):
            break
        table = table[1:]  # by its header it has offsets of the next one
    if not len(table) and invalid is not None:
        raise DamagedLogError(f"{tp} has no record batch at offset {offset}, but other bytes")
    if not len(table) and len(records):
        raise too_small(records)
    begin = offset if begins_batch or not len(table) else min(_base(table, 0), offset)
    count = rising(table, begin, _END)
    if not count or _is_right(records, table, count - 1):
        return _up_to_disorder(records, table, count, offset, tp)
    if count > 1:
        return _whole(records, table[: count - 1], offset)
    part = _whole(records, table[:1], offset)
    if len(table) > 1 and _base(table, 0) < _base(table, 1) < part.end:
        return part._replace(end=_base(table, 1), next_offset=_base(table, 1))
    return part


def _up_to_disorder(
    records: memoryview, table: Table, count: int, offset: int, tp: TopicPartition
) -> Readable:
    """The first `count` batches, and what the one behind them has lost, if it is out of order."""
    part = _whole(records, table[:count], offset)
    if count == len(table):
        return part
    base, end = _base(table, count), _end(table, count)
    following = _base(table, count + 1) if count + 1 < len(table) else -1
    if following <= part.end:
        if count:
            return part  # the next response has more batches behind it
        following = offset + max(end - base, 1)
    problem = f"{tp}: a batch with offsets from {base} to {end - 1} is out of order"
    return part._replace(next_offset=following, problem=problem)


def _whole(records: memoryview, table: Table, offset: int) -> Readable:
    """Consecutive batches."""
    if not len(table):
        return Readable(records[:0], offset, offset)
    start, last = int(table[0, kernels.POSITION]), table[-1]
    end = max(_end(table, len(table) - 1), offset)
    return Readable(records[start : int(last[kernels.POSITION] + last[kernels.SIZE])], end, end)


def too_small(records: memoryview) -> KafkaError:
    """The error for a Fetch response with a part of a batch."""
    return KafkaError(
        ErrorCode.message_too_large,
        f"only {len(records)} bytes of a record batch came; raise kafka.max.partition.fetch.bytes",
    )


def _base(table: Table, number: int) -> int:
    return int(table[number, kernels.BASE_OFFSET])


def _end(table: Table, number: int) -> int:
    return int(table[number, kernels.LAST_OFFSET]) + 1


def _is_right(records: memoryview, table: Table, number: int) -> bool:
    """Whether the CRC of a batch is right."""
    return crcs_are_right(records, table[number : number + 1])


def decoded(
    records: memoryview,
    offset: int,
    end: int,
    tp: TopicPartition,
    decode: Decode,
    include_headers: bool,
) -> Iterator[Any]:
    """The records of whole batches with offsets in [offset, end), and a row for each damaged one.

    A batch that is too large or of an unknown compression type counts as damaged.
    """
    try:
        for batch in decode(records, offset, end):
            offset = batch.column("offset")[-1].as_py() + 1
            yield batch
        return
    except KafkaError:
        table = scan(as_bytes(records))
    for each in decode_each(records, table, offset, end, decode, lambda _: True):
        is_damage = isinstance(each, Damage)
        yield row_of(each, tp, include_headers) if is_damage else each


def row_of(damage: Damage, tp: TopicPartition, include_headers: bool) -> Any:
    """The row that stands for a damaged batch."""
    text = f"{damage.problem}; lost are {offset_span(damage.start, damage.end)}"
    return damaged_row(tp, damage.start, text, include_headers=include_headers)
