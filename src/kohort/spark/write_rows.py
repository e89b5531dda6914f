"""Resolves topic and partition of a task's rows before any is sent."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

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
        raise ConfigError(
            "a row has no topic: its column topic is null; fill it, or set option topic for "
            "all rows"
        )
    topics = pc.unique(column).to_pylist()
    for topic_name in topics:
        of_topic = batch if len(topics) == 1 else batch.filter(pc.equal(column, topic_name))
        yield topic_name, of_topic.select(names)


def validate_partitions(topic: str, batch: RecordBatch, count: Counts) -> None:
    """Raises ConfigError for a row whose `partition` the topic does not have."""
    column, partition_count = batch["partition"], count(topic)
    wrong = column.filter(pc.or_(pc.less(column, 0), pc.greater_equal(column, partition_count)))
    if len(wrong):
        raise ConfigError(
            f"a row is for partition {wrong[0]} of topic {topic}, which has the "
            f"partitions 0 to {partition_count - 1}:"
            " correct the column partition, or add partitions to the topic"
        )
