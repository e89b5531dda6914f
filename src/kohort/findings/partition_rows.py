"""The rows of each partition in a table of all partitions of a group."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.history.numbering import Numbers, integers, names_in, order_of, places_of


def by_partition(rows: pa.Table) -> tuple[pa.Table, list[tuple[str, int, slice]]]:
    """The rows by topic, partition and time; and where those of each partition are."""
    names = names_in(rows["topic"])
    keys = places_of(rows["topic"], names), integers(rows["partition"])
    order = order_of(*keys, integers(rows["time"]))
    if order is not None:
        rows, keys = rows.take(pa.array(order)), (keys[0][order], keys[1][order])
    return rows, list(slices(*keys, names))


def slices(
    topics: Numbers, partitions: Numbers, names: pa.Array
) -> Iterator[tuple[str, int, slice]]:
    """Topic, partition and rows of each partition, of rows that are in their order.

    `topics` are places in `names`.
    """
    changes = np.flatnonzero((np.diff(topics) != 0) | (np.diff(partitions) != 0)) + 1
    bounds = [0, *changes.tolist(), len(topics)] if len(topics) else []
    topic_names = names.to_pylist()
    for start, end in pairwise(bounds):
        yield topic_names[int(topics[start])], int(partitions[start]), slice(start, end)
