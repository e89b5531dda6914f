"""Offset resets by plans that are reviewed, executed, verified and undone."""

from kohort.client.resets.checks import (
    ActiveGroupError,
    RecreatedTopicError,
    describe_members,
    require_empty,
    require_same_cluster,
)
from kohort.client.resets.commits import TopicIds, changes_to, plan_commits, topic_ids
from kohort.client.resets.csv import read_offsets, write_offsets
from kohort.client.resets.operations import (
    DriftError,
    Scope,
    check,
    committed_by_all,
    execute,
    now_ms,
    partitions_of,
    plan_reset,
)
from kohort.client.resets.plan import Drift, OffsetChange, PlanError, ResetPlan
from kohort.client.resets.specs import (
    ShiftBy,
    Specification,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
)
from kohort.client.resets.times import Moment, instant, iso, parse_datetime, parse_duration

__all__ = [
    "ActiveGroupError",
    "Drift",
    "DriftError",
    "Moment",
    "OffsetChange",
    "PlanError",
    "RecreatedTopicError",
    "ResetPlan",
    "Scope",
    "ShiftBy",
    "Specification",
    "ToCurrent",
    "ToEarliest",
    "ToLatest",
    "ToOffset",
    "ToOffsets",
    "ToTime",
    "TopicIds",
    "changes_to",
    "check",
    "committed_by_all",
    "describe_members",
    "execute",
    "instant",
    "iso",
    "now_ms",
    "parse_datetime",
    "parse_duration",
    "partitions_of",
    "plan_commits",
    "plan_reset",
    "read_offsets",
    "require_empty",
    "require_same_cluster",
    "topic_ids",
    "write_offsets",
]
