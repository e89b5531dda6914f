"""Reads the rows of `readRanges` in the tasks of a query.

    fetch = RangeReader(options)
    frame.mapInArrow(fetch, fetch.schema)

A function of your own may call `fetch`, too, and reduce or write the records.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kohort.spark import fetching
from kohort.spark.options import parse_either_read
from kohort.spark.ranges import OffsetRange
from kohort.spark.read_schema import columns_of


class RangeReader:
    """Reads the rows of `readRanges`; to be called by `mapInArrow`, or in its function."""

    def __init__(self, options: Mapping[str, object]) -> None:
        """`options` are those of the stream; `readRanges` may be among them.

        Raises RefusedOptionsError.
        """
        texts = {name: _text(value) for name, value in options.items()}
        self._options = replace(parse_either_read(texts), read_ranges=False)
        self.schema = columns_of(self._options)
        """The columns of the records."""

    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        """The records of the ranges in Arrow record batches of `rows`, as Arrow record batches.

        Raises DataLossError if records were deleted, unless `failOnDataLoss` is false; KafkaError;
        GaveUpError if the leader could not be reached.
        """
        for batch in rows:
            for row in batch.to_pylist():
                yield from self.read(
                    OffsetRange(
                        row["topic"], row["partition"], row["start"], row["end"], row["topicId"]
                    )
                )

    def read(self, offset_range: OffsetRange) -> Iterator[Any]:
        """The records of one range as Arrow record batches. Raises as a call does."""
        return fetching.read(self._options, offset_range)


def _text(value: object) -> str:
    """An option's value as Spark passes it on."""
    return str(value).lower() if isinstance(value, bool) else str(value)
