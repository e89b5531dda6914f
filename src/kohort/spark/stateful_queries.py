"""Refuses queries that cannot be members of a group (`groupMode=member`), when they start.

Spark keeps the state of windows, aggregations and the like in the checkpoint of one query. The
partitions of a member move to other queries, but their state does not: counts restart, duplicates
pass, and two queries have a part of each key. Such results cannot be told from correct ones.

With `transactionalSink` the group's offsets decide what is read again. Other streams of the query
would be read again by the checkpoint, so the query may have no other stream.

A Python data source cannot see the plan of its query: its processes get options and requests for
offsets. The driver has the plan, so the two methods that start a query from Python are wrapped
there. The import that registers the data source does that.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from pyspark.sql.streaming.readwriter import DataStreamWriter

from kohort.errors import ConfigError
from kohort.spark.options import GroupMode, ReadOptions, parse_read

F = TypeVar("F", bound=Callable[..., Any])

STATEFUL: Final = {
    "Aggregate": "an aggregation",
    "Distinct": "distinct",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Join": "a join of two streams",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPandas": "transformWithStateInPandas",
    "TransformWithStateInPySpark": "transformWithState",
    "GlobalLimit": "a limit",
}
"""Spark's logical operators that keep state in a stream, with their names for users."""


def validate_plan(plan: Any) -> None:
    """Raise ConfigError if `plan` reads as a member and cannot.

    `plan` is Spark's analyzed logical plan, an object of its JVM.
    """
    streams: list[Any] = []
    for leaf in _each(plan.collectLeaves()):
        if leaf.isStreaming() and leaf not in streams:  # a frame that is there twice is read once
            streams.append(leaf)
    members = [options for leaf in streams if (options := _of_member(leaf)) is not None]
    sinks = [
        member.transactional_sink for member in members if member.transactional_sink is not None
    ]
    if sinks and len(streams) > 1:
        raise ConfigError(
            f"option transactionalSink {sinks[0]}: the query reads {len(streams)} streams, and the "
            "sink commits the offsets of one. Read several topics by one load(), or write the "
            "streams by a query each"
        )
    if any(not member.stateful_member for member in members):
        _validate_stateless(plan)


def _validate_stateless(plan: Any) -> None:
    if operator := next(_stateful(plan), None):
        raise ConfigError(
            f"groupMode is member, and the query has {operator}: its state stays in its checkpoint "
            "when partitions move to other members of the group, so results would be wrong. Set "
            "groupMode to reporting for one query that reads all partitions. If every key of the "
            "state is in one partition only, and partitions do not move, set statefulMember to true"
        )


def _of_member(leaf: Any) -> ReadOptions | None:
    """The options of a streaming read of this source as a member."""
    if leaf.nodeName() != "StreamingRelationV2" or leaf.sourceName() != "kohort":
        return None
    options = parse_read(dict(leaf.extraOptions().asCaseSensitiveMap()), streaming=True)
    return options if options.group_mode is GroupMode.MEMBER else None


def _stateful(plan: Any) -> Iterator[str]:
    """The parts of `plan` that keep state, from its top."""
    children = list(_each(plan.children()))
    name = plan.nodeName()
    # A stream that is joined with a table keeps no state; an initial state may be a table.
    streaming = all if name == "Join" else any
    if name in STATEFUL and streaming(child.isStreaming() for child in children):
        yield STATEFUL[name]
    for child in children:
        yield from _stateful(child)


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of Scala's sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _checked(start: F) -> F:
    @functools.wraps(start)
    def checked(self: DataStreamWriter, *args: Any, **options: Any) -> Any:
        validate_plan(self._df._jdf.queryExecution().analyzed())
        return start(self, *args, **options)

    return checked  # type: ignore[return-value]


def validate_starts() -> None:
    """Have every query that Python starts in this process validated."""
    for name in ("start", "toTable"):
        setattr(DataStreamWriter, name, _checked(getattr(DataStreamWriter, name)))
