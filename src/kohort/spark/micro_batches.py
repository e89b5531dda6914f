"""Micro-batches of an exactly-once sink, and which of them are committed.

A micro-batch is its plan: the offsets between which it reads its sources. Its number alone is not
enough. Spark uses a number again for a micro-batch that it repeats, with the plan in the log of the
checkpoint, and for a different one that it plans from an older copy of the checkpoint. The repeated
one is not written again. A different one would lose or duplicate rows, so it is an error.

Number and plan are committed in the transaction of the rows, as offset and metadata in a group of
the sink:

    offset    7
    metadata  "4f0c2d9e-… {"orders": {"0": 120, "1": 98}}"

The metadata begins with the id in the checkpoint: the numbers of a new checkpoint begin at 0.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.spark.write_options import WriteOptions

UNKNOWN: Final = ""
"""A plan that is not compared."""
_MAX_PLAN_LENGTH: Final = 2_000
"""Length from which the digest of a plan is committed instead of the plan, in characters.

Kafka's limit of metadata is 4096 (`offset.metadata.max.bytes`).
"""
_HEADER_LINES: Final = 2
"""Lines before the offsets in a file of the log: version; watermark and time of the batch."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch of one checkpoint."""

    query_id: str
    """Kept in the checkpoint."""
    number: int
    plan: str
    """Offsets of all sources, as `committed_plan` shortens them, or `UNKNOWN`."""

    def to_commit(self) -> OffsetAndMetadata:
        return OffsetAndMetadata(offset=self.number, metadata=f"{self.query_id} {self.plan}")

    def is_committed(self, offsets: Iterable[OffsetAndMetadata]) -> bool:
        """Whether this micro-batch is among the committed `offsets`.

        Raises KohortError if another one has its number, or a later one is committed.
        """
        committed = [
            (committed_offset.offset, plan)
            for committed_offset in offsets
            for query_id, _, plan in [committed_offset.metadata.partition(" ")]
            if query_id == self.query_id and committed_offset.offset >= self.number
        ]
        if any(number == self.number and self._is_like(plan) for number, plan in committed):
            return True
        if committed:
            raise KohortError(self._refusal(*max(committed)))
        return False

    def _is_like(self, plan: str) -> bool:
        return plan == self.plan or UNKNOWN in (plan, self.plan)

    def _refusal(self, number: int, plan: str) -> str:
        conflict = (
            f"micro-batch {number} of the query {self.query_id} is committed, and this is "
            f"{self.number}"
            if number > self.number
            else f"micro-batch {number} of the query {self.query_id} is committed with the offsets "
            f"{plan}, and this one has {self.plan}"
        )
        return (
            f"{conflict}: either another driver runs this query, or the checkpoint is an older "
            "copy. None of its rows is written. If another driver runs, end this one. Otherwise "
            "continue from the newer checkpoint, or from a new one whose startingOffsets are the "
            f"ends of the written rows: {plan or 'the offsets of the last micro-batch'}"
        )


def committed_plan(offsets: str) -> str:
    """The text for these offsets in the metadata of a commit: the offsets, or their digest."""
    if len(offsets) <= _MAX_PLAN_LENGTH:
        return offsets
    return f"sha256:{hashlib.sha256(offsets.encode()).hexdigest()}"


def read_plan(options: WriteOptions, number: int) -> str:
    """The plan of a micro-batch, from the log of the checkpoint; `UNKNOWN` if that is an option.

    Spark writes it before it reads a source, and never again. Raises KohortError if it cannot be
    read.
    """
    if not options.verify_plan:
        return UNKNOWN
    try:
        if options.checkpoint is None:
            raise FileNotFoundError("the query's options have no checkpointLocation")
        text = _read(options.checkpoint, f"offsets/{number}")
    except (OSError, ValueError, NotImplementedError) as error:  # of PyArrow's file systems too
        raise KohortError(
            f"the offsets of micro-batch {number} cannot be read from the checkpoint: {error}. "
            "delivery=exactly_once commits them, so that an older copy of the checkpoint loses and "
            "repeats no rows. Set the option checkpointLocation to a directory that the driver's "
            "Python can read, or verifyPlan to false"
        ) from error
    return committed_plan("\n".join(text.splitlines()[_HEADER_LINES:]))


def _read(location: str, name: str) -> str:
    """A file of the checkpoint. Raises OSError, ValueError, NotImplementedError."""
    scheme = urlsplit(location).scheme
    if scheme in ("", "file"):
        return (Path(location.removeprefix("file:")) / name).read_text()
    from pyarrow.fs import FileSystem  # type: ignore[import-untyped]

    # Hadoop's names of the same file systems.
    same = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
    files, path = FileSystem.from_uri(same + location.removeprefix(scheme))
    with files.open_input_stream(f"{path}/{name}") as stream:
        return str(stream.read(), "utf-8")
