"""Random logs of committed offsets, as record batches of `schema.RECORDS`."""

from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st

from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
)
from kohort.history.schema import RECORDS

Record: TypeAlias = dict[str, Any]

LOG_PARTITION = 3
START_MS = 1_700_000_000_000

groups = st.sampled_from(["g", "h", "grüppe", ""])
topics = st.sampled_from(["t", "topic-with-a-long-name"])
keys = st.builds(OffsetCommitKey, groups, topics, st.integers(0, 1))
ids = st.sampled_from([None, UUID(int=1), UUID(int=2**127 + 3)])
metadata = st.sampled_from(["", "", "m", "größer", "x" * 50])
expiries = st.sampled_from([-1, -1, START_MS, START_MS + 10**6])
offsets = st.one_of(st.integers(0, 5), st.sampled_from([-1, 2**63 - 1, -(2**63)]))
times = st.one_of(st.integers(START_MS, START_MS + 10**6), st.sampled_from([-1, 0, 2**62]))
values = st.builds(
    OffsetCommitValue, offsets, st.sampled_from([-1, 0, 7]), metadata, times, expiries, ids
)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """Key and value of a record."""
    value = draw(st.one_of(values, values, values, st.none()))
    key, data = encode(OffsetCommitRecord(draw(keys), value))
    match draw(st.integers(0, 30)):
        case 0:
            return key[: draw(st.integers(2, len(key) - 1))], data
        case 1 if data is not None:
            return key, data[: draw(st.integers(0, len(data) - 1))]
        case 2:
            return b"\0\0" + key[2:], data
        case 3:
            return key, b"\0\x63" + bytes(8)
        case _:
            return key, data


steps = st.one_of(  # ms from record to record
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from([-2_000, 0, 5_000, 61_000, 15 * 60_000, 20 * 60_000]),
)


@st.composite
def logs(draw: st.DrawFn, *, has_holes: bool = True) -> list[Record]:
    """Records with offsets, mostly one behind the other, and times, mostly ascending."""
    has_batches = draw(st.booleans()) or draw(st.booleans())
    offset = draw(st.sampled_from([0, 0, 0, 5])) if has_holes else 0
    batch, time = offset, START_MS
    log = []
    for _ in range(draw(st.integers(0, 40))):
        time += draw(steps)
        if draw(st.booleans()):
            batch = offset
        record: Record = {
            "partition": LOG_PARTITION,
            "offset": offset,
            "timestamp": time * 1000,
            "batchOffset": batch if has_batches else None,
            "partitionLeaderEpoch": draw(st.integers(0, 2)) if has_batches else None,
            "transactional": False if has_batches else None,
            "producerId": None,
            "producerEpoch": None,
            "control": None,
        }
        record["key"], record["value"] = draw(bodies())
        if has_batches and draw(st.integers(0, 2)) == 0:
            record |= {"transactional": True, "producerId": draw(st.integers(1, 3))}
            record["producerEpoch"] = draw(st.integers(0, 2))
            if draw(st.booleans()):
                kind = draw(st.sampled_from(["commit", "commit", "abort", "other"]))
                record |= {"key": b"\0\0\0\1", "value": bytes(6), "control": kind}
        log.append(record)
        offset += 1 + (draw(st.integers(0, 20)) == 0 if has_holes else 0)
    return log


def batch_of(log: list[Record]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(log, RECORDS)
