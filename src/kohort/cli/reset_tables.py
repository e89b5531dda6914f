"""Tables of plans and of the groups' distance from them, and the exit code of refusals."""

import json
import sys
from collections.abc import Awaitable, Sequence

from kohort.cli.exit_codes import FOUND
from kohort.cli.output import Table, print_message, show
from kohort.client.resets import (
    ActiveGroupError,
    Drift,
    DriftError,
    OffsetChange,
    RecreatedTopicError,
    ResetPlan,
)
from kohort.errors import KohortError


class StateRefusedError(KohortError):
    """The state of groups, topics or a history does not allow it: exit code 3."""


def show_plan(output: str, plan: ResetPlan) -> None:
    """Old and new offset of every partition; as JSON it is the plan file."""
    columns = ("GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET", "MOVES")
    show(
        output,
        Table(columns, [_row(change) for change in plan.changes]),
        json.loads(plan.to_json()),
    )


def _row(change: OffsetChange) -> Sequence[object]:
    old, new = (None if offset is None else offset.offset for offset in (change.old, change.new))
    return (
        change.group,
        change.partition.topic,
        change.partition.partition,
        old,
        new,
        change.moves,
    )


def drift_table(drifts: Sequence[Drift]) -> Table:
    columns = ("GROUP", "TOPIC", "PARTITION", "EXPECTED-OFFSET", "CURRENT-OFFSET")
    rows = [
        (drift.group, drift.partition.topic, drift.partition.partition, drift.expected, drift.found)
        for drift in drifts
    ]
    return Table(columns, rows)


async def guarded(work: Awaitable[int]) -> int:
    """Run `work`; exit code 3 if the groups' state refuses it, with a table of moved offsets."""
    try:
        return await work
    except (ActiveGroupError, RecreatedTopicError, StateRefusedError) as error:
        print_message(str(error))
    except DriftError as error:
        show("table", drift_table(error.drifts), None, to=sys.stderr)
        print_message(str(error))
    return FOUND
