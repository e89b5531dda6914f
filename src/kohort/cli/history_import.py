"""Commit the offsets of a file of `kohort history export` in another cluster.

It is a dry run unless --execute is given; what was executed is verified and can be undone, as
`kohort groups reset`. Each row says how its offset was found:

  exact        by the topic's id, or by the hash of the record at the offset, or of the one before
  by time      not earlier than the records' times: some records may be read again
  same offset  the number of the other cluster (--same-offsets)
  unknown      left out: no such topic, or the export has no record around the offset

Exit code 3 if rows are unknown.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FOUND
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show, warn
from kohort.cli.plan_options import (
    add_plan_arguments,
    check_plan_arguments,
    execute_or_write,
    print_dry_run,
    warn_of_changes,
)
from kohort.cli.reset_tables import guarded
from kohort.client.admin import Admin
from kohort.client.cluster import NO_EPOCH
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets import OffsetChange, ResetPlan, plan_commits, require_empty, topic_ids
from kohort.client.transfers import Export, ExportedOffset, ExportError, Located, locate
from kohort.types import GroupId, TopicPartition
from kohort.util.text import did_you_mean

AT_ONCE: Final = 8
"""Partitions that are searched at the same time."""
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
COLUMNS: Final = (
    "GROUP", "TOPIC", "PARTITION", "EXPORTED-OFFSET", "OLD-OFFSET", "NEW-OFFSET", "METHOD",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument("file", metavar="FILE", type=Path, help="file of kohort history export")
    parser.add_argument(
        "--group",
        metavar="OLD[=NEW]",
        action="append",
        default=[],
        help="import only this group of the file, perhaps as another one; repeatable",
    )
    parser.add_argument(
        "--same-offsets",
        action="store_true",
        help="commit the same numbers: records have the same offsets in both clusters",
    )
    add_plan_arguments(parser, "import")
    add_output_argument(parser)


@dataclass(frozen=True, slots=True)
class Row:
    """An exported offset, and where it is here."""

    group: GroupId
    exported: ExportedOffset
    located: Located


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    check_plan_arguments(options)
    export = _read(options.file)
    groups = chosen(export, options.group)
    return run_with_admin(options, lambda admin: guarded(_import(admin, options, export, groups)))


def _read(path: Path) -> Export:
    """Raises RefusedError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ExportError(f"has more than {MAX_FILE_BYTES >> 20} MiB")
        return Export.from_json(data.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, ExportError) as error:
        raise RefusedError(f"{path}: {error}") from None


def chosen(export: Export, texts: list[str]) -> dict[GroupId, GroupId]:
    """Group here → group of the file. Raises RefusedError."""
    if not texts:
        return {group: group for group in export.groups}
    groups: dict[GroupId, GroupId] = {}
    for text in texts:
        # A group id may have "=" in it: the whole is one of the file's then.
        old, equals, new = (text, "", "") if text in export.groups else text.partition("=")
        if old not in export.groups:
            hint = did_you_mean(old, export.groups)
            raise RefusedError(f"--group {text}: the file has no group {old}{hint}")
        target = GroupId(new if equals else old)
        if not target:
            raise RefusedError(f"--group {text}: the new group id is empty")
        if target in groups:
            raise RefusedError(f"--group {text}: two groups become {target}")
        groups[target] = GroupId(old)
    return groups


async def _import(
    admin: Admin, options: argparse.Namespace, export: Export, groups: Mapping[GroupId, GroupId]
) -> int:
    await require_empty(admin, list(groups))
    offsets = {new: export.groups[old] for new, old in groups.items()}
    partitions = {each.partition for of_group in offsets.values() for each in of_group}
    ids = (await topic_ids(admin, {tp.topic for tp in partitions})).ids
    ends = await admin.ends(partitions, isolation="read_committed")
    rows = await _located(admin, offsets, ids, ends, same_offsets=options.same_offsets)
    plan = await plan_commits(
        admin,
        {group: _commits(rows, group, ids) for group in groups},
        specification=f"import of {options.file.name}",
        ids={name: topic_id for name, topic_id in ids.items() if topic_id is not None},
    )
    _warn(rows, plan)
    if plan.changes:
        await execute_or_write(admin, options, plan)
    _show(options.output, rows, plan)
    print_dry_run(options)
    return FOUND if any(row.located.offset is None for row in rows) else 0


async def _located(
    admin: Admin,
    offsets: Mapping[GroupId, tuple[ExportedOffset, ...]],
    ids: Mapping[str, UUID | None],
    ends: Mapping[TopicPartition, tuple[int, int]],
    *,
    same_offsets: bool,
) -> list[Row]:
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(group: GroupId, exported: ExportedOffset) -> Row:
        tp = exported.partition
        if tp not in ends:
            return Row(group, exported, Located("unknown", None, "no such partition here"))
        if same_offsets:
            return Row(group, exported, Located("same offset", exported.commit.offset))
        async with at_once:
            return Row(group, exported, await locate(admin, exported, ids.get(tp.topic), ends[tp]))

    return await asyncio.gather(
        *(one(group, each) for group, of_group in offsets.items() for each in of_group)
    )


def _commits(
    rows: list[Row], group: GroupId, ids: Mapping[str, UUID | None]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """What to commit. The leader epoch of another topic means nothing here."""
    commits: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for row in rows:
        exported, offset = row.exported, row.located.offset
        if row.group != group or offset is None:
            continue
        topic_id = ids.get(exported.partition.topic)
        is_same = topic_id is not None and topic_id == exported.topic_id
        epoch = exported.commit.leader_epoch if is_same else NO_EPOCH
        commits[exported.partition] = replace(exported.commit, offset=offset, leader_epoch=epoch)
    return commits


def _warn(rows: list[Row], plan: ResetPlan) -> None:
    for row in rows:
        if row.located.reason:
            warn(
                f"{row.exported.partition} of group {row.group} {_outcome(row.located)}: "
                f"{row.located.reason}"
            )
    warn_of_changes(plan)


def _outcome(located: Located) -> str:
    return "is left out" if located.offset is None else "by time"


def _show(output: str, rows: list[Row], plan: ResetPlan) -> None:
    """A row for each exported offset; as JSON the plan file, and those."""
    changes = {(change.group, change.partition): change for change in plan.changes}
    cells = [_cells(row, changes.get((row.group, row.exported.partition))) for row in rows]
    names = ("group", "topic", "partition", "exported_offset", "old_offset", "new_offset", "method")
    located = [
        dict(zip(names, line, strict=True)) | {"reason": row.located.reason}
        for row, line in zip(rows, cells, strict=True)
    ]
    show(output, Table(COLUMNS, cells), json.loads(plan.to_json()) | {"offsets": located})
    if output == "table":
        methods = [row.located.method for row in rows]
        counts = (f"{methods.count(each)} {each}" for each in dict.fromkeys(methods))
        print_message(", ".join(counts) or "no offsets in the file")


def _cells(row: Row, change: OffsetChange | None) -> tuple[object, ...]:
    old, new = (None, None) if change is None else (change.old, change.new)
    return (
        row.group,
        row.exported.partition.topic,
        row.exported.partition.partition,
        row.exported.commit.offset,
        None if old is None else old.offset,
        None if new is None else new.offset,
        row.located.method,
    )
