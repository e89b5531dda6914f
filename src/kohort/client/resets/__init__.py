"""Offset resets by plans that are reviewed, executed, verified and undone."""

from kohort.client.resets.csv import read_offsets, write_offsets
from kohort.client.resets.operations import (
    ActiveGroupError,
    DriftError,
    Scope,
    check,
    committed_by_all,
    describe_members,
    execute,
    now_ms,
    partitions_of,
    plan_reset,
    require_same_cluster,
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
    "plan_reset",
    "read_offsets",
    "require_same_cluster",
    "write_offsets",
]
