"""Set the committed offsets of a group back to those of an earlier time, from its history.

The history is a directory of `kohort history build`; Spark is not needed. It is a dry run unless
--execute is given. An executed restore is verified, and its plan file is kept for `kohort groups
undo`, which brings back the state before: partitions without a commit have none again.

A group with members is refused, as Kafka accepts commits of members only: stop them, or restore
into another group by --as. Partitions that had no commit then keep theirs, unless --delete-absent
is given.
"""

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.group_options import add_topic_argument, topics
from kohort.cli.history_source import (
    add_history_argument,
    moment_of,
    open_history,
    read_group,
    warn_of_others,
)
from kohort.cli.name_arguments import add_name
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show, warn
from kohort.cli.plan_options import (
    add_plan_arguments,
    check_plan_arguments,
    execute_or_write,
    print_dry_run,
    warn_of_changes,
)
from kohort.cli.reset_tables import StateRefusedError, guarded
from kohort.cli.restore_checks import (
    require_certain,
    require_reached,
    require_same_history,
    require_topics,
)
from kohort.cli.restore_targets import Scope, Targets, targets_of
from kohort.client.admin import Admin
from kohort.client.resets import (
    ActiveGroupError,
    Moment,
    OffsetChange,
    ResetPlan,
    committed_by_all,
    now_ms,
    plan_commits,
    require_empty,
    topic_ids,
)
from kohort.errors import KohortError
from kohort.types import GroupId, TopicPartition
from kohort.util.text import did_you_mean, join_names

if TYPE_CHECKING:
    from kohort.history_files.committed import Commit, CommittedOffsets
    from kohort.history_files.directory import HistoryDirectory

COLUMNS: Final = (
    "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET", "MOVES", "LOG-OFFSET", "COMMITTED-AT",
    "BEFORE", "NEXT", "NEXT-AT",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_name(parser, "--group", "GROUP", "group id")
    add_history_argument(parser, required=True, help="directory or URL of the history")
    parser.add_argument(
        "--to",
        metavar="TIME",
        required=True,
        help="restore the offsets as they were at this time, as 2026-01-31T10:42Z",
    )
    add_topic_argument(parser, "only a topic, or some of its partitions; repeatable")
    parser.add_argument(
        "--as",
        metavar="OTHER",
        dest="target",
        help="restore into this group, and leave GROUP as it is",
    )
    parser.add_argument(
        "--skip-unknown",
        action="store_true",
        help="leave out partitions whose offset at that time is not known",
    )
    parser.add_argument(
        "--delete-absent",
        action="store_true",
        help="delete commits of partitions that had none at that time",
    )
    add_plan_arguments(parser, "restore")
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    check_plan_arguments(options)
    if options.target == "":
        raise RefusedError("--as: the group id is empty")
    moment = _moment(options.to)
    scope = topics(options) if options.topic else None
    directory = open_history(options.history)
    return run_with_admin(
        options, lambda admin: guarded(_restore(admin, options, directory, moment, scope))
    )


def _moment(text: str) -> datetime:
    moment = moment_of("--to", text)
    assert moment is not None
    at_ms = _ms(moment)
    if at_ms > now_ms():
        raise RefusedError(f"--to {text}: is in the future")
    print_message(f"to {Moment(at_ms, has_zone=True).describe()}")
    return moment


async def _restore(
    admin: Admin,
    options: argparse.Namespace,
    directory: "HistoryDirectory",
    moment: datetime,
    scope: Scope | None,
) -> int:
    from kohort.history_files.committed import committed_offsets

    reader = read_group(directory, options.group, moment)
    warn_of_others(reader, options.group)
    offsets = committed_offsets(reader)
    group = GroupId(options.target or options.group)
    await require_same_history(admin, reader.snapshot, directory.files.location)
    await require_reached(admin, reader, offsets, _ms(moment))
    await _require_empty(admin, group, is_other=group != options.group)
    current = (await committed_by_all(admin, [group]))[group]
    targets = targets_of(offsets, current, scope, delete_absent=options.delete_absent)
    _require_in_scope(scope, [*targets.commits, *targets.kept, *targets.unknown], options.group)
    require_certain(offsets, targets, reader.coverage(), skip_unknown=options.skip_unknown)
    ids = await topic_ids(admin, {tp.topic for tp in targets.origins})
    require_topics(targets, ids)
    plan = await plan_commits(
        admin,
        {group: targets.commits},
        specification=_specification(options, moment),
        ids={name: topic_id for name, topic_id in ids.ids.items() if topic_id is not None},
    )
    _warn(plan, targets)
    if not plan.changes:
        print_message(f"group {options.group} had no committed offsets then: nothing to restore")
        return FAILED
    await execute_or_write(admin, options, plan)
    _show(options.output, plan, targets, offsets)
    print_dry_run(options)
    return 0


async def _require_empty(admin: Admin, group: GroupId, *, is_other: bool) -> None:
    try:
        await require_empty(admin, [group])
    except ActiveGroupError as error:
        hint = "" if is_other else ", or restore into another group by --as OTHER"
        raise StateRefusedError(f"{error}{hint}") from error


def _require_in_scope(
    scope: Scope | None, partitions: Sequence[TopicPartition], group: str
) -> None:
    """Raise KohortError for topics and partitions that the group has never committed."""
    existing = {tp.topic for tp in partitions}
    for topic, numbers in (scope or {}).items():
        if topic not in existing:
            raise KohortError(
                f"group {group} has no commits of topic {topic}{did_you_mean(topic, existing)}"
            )
        missing = {number for number in numbers or () if (topic, number) not in partitions}
        if missing:
            names = ", ".join(map(str, sorted(missing)))
            raise KohortError(f"group {group} has no commits of partitions {names} of {topic}")


def _specification(options: argparse.Namespace, moment: datetime) -> str:
    source = f" of {options.group}" if options.target else ""
    return f"restore{source} to {_text(moment)}"


def _warn(plan: ResetPlan, targets: Targets) -> None:
    warn_of_changes(plan)
    if targets.unknown:
        warn(f"not known, and left out: {join_names(map(str, targets.unknown))}")
    if targets.kept:
        warn(
            f"had no commit then, and keep theirs: {join_names(map(str, targets.kept))}; "
            "--delete-absent deletes them"
        )


def _show(output: str, plan: ResetPlan, targets: Targets, offsets: "CommittedOffsets") -> None:
    """Old and new offsets, and the commits around the time; as JSON the plan file, and those."""
    rows = [_row(change, targets) for change in plan.changes]
    origins = [_origin(change, targets) for change in plan.changes]
    as_json = json.loads(plan.to_json()) | {
        "log_partition": offsets.log_partition,
        "log_offset": offsets.cut if offsets.reaches_past else None,
        "commits": origins,
        "kept": [{"topic": tp.topic, "partition": tp.partition} for tp in targets.kept],
        "unknown": [{"topic": tp.topic, "partition": tp.partition} for tp in targets.unknown],
    }
    show(output, Table(COLUMNS, rows), as_json)
    if output == "table" and offsets.reaches_past:
        print_message(
            f"log partition {offsets.log_partition}: commits before log offset {offsets.cut}"
        )


def _row(change: OffsetChange, targets: Targets) -> tuple[object, ...]:
    origin = _origin(change, targets)
    return (
        change.partition.topic,
        change.partition.partition,
        None if change.old is None else change.old.offset,
        None if change.new is None else change.new.offset,
        change.moves,
        *(
            origin.get(name)
            for name in ("log_offset", "time", "before_offset", "next_offset", "next_time")
        ),
    )


def _origin(change: OffsetChange, targets: Targets) -> dict[str, Any]:
    """The commit that is restored, and those before and after it."""
    origin = targets.origins.get(change.partition)
    place = {"topic": change.partition.topic, "partition": change.partition.partition}
    if origin is None or origin.commit is None:
        return place
    commit, after = origin.commit, origin.after
    return place | {
        "log_offset": commit.log_offset,
        "time": _text(commit.time),
        "offset": commit.offset,
        "before_offset": commit.previous,
        "before_time": _text(commit.previous_time),
        **_next(after),
    }


def _next(after: "Commit | None") -> dict[str, Any]:
    if after is None:
        return {"next_log_offset": None, "next_offset": None, "next_time": None}
    return {
        "next_log_offset": after.log_offset,
        "next_offset": after.offset,
        "next_time": _text(after.time),
    }


def _text(time: datetime | None) -> str | None:
    from kohort.history_files.reading import text_of

    return text_of(time)


def _ms(moment: datetime) -> int:
    """Milliseconds since 1970, rounded down."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
