"""Write committed offsets of groups to a file, for another cluster.

Offsets are those that are committed now, or with --history and --at those of an earlier time. The
broker has the records: the file has the times and hashes of the ones around each offset, by which
`kohort history import` finds the offset in another cluster. The records' content is not in it.

  kohort history export billing -b old:9092 -o billing.json
  kohort history import billing.json -b new:9092 --execute
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.history_source import (
    add_history_argument,
    moment_of,
    open_history,
    read_group,
    warn_of_others,
)
from kohort.cli.name_arguments import add_names
from kohort.cli.near_names import near_groups
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message, warn
from kohort.cli.reset_tables import guarded
from kohort.cli.restore_checks import (
    require_certain,
    require_reached,
    require_same_history,
    require_topics,
)
from kohort.cli.restore_targets import Targets, targets_of
from kohort.client.admin import Admin
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets import committed_by_all, iso, now_ms, topic_ids
from kohort.client.transfers import Export, ExportedOffset, marks_around
from kohort.errors import KohortError
from kohort.types import GroupId, TopicPartition
from kohort.util.text import join_names

if TYPE_CHECKING:
    from kohort.history_files.directory import HistoryDirectory

AT_ONCE: Final = 8
"""Partitions whose records are read at the same time."""
Commits = Mapping[TopicPartition, OffsetAndMetadata]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_names(parser, "--group", "GROUP", "group id", required=True)
    add_history_argument(
        parser, required=False, help="directory or URL of a history to take the offsets from"
    )
    parser.add_argument(
        "--at",
        metavar="TIME",
        help="with --history: the offsets as they were at this time, as 2026-01-31T10:42Z",
    )
    parser.add_argument(
        "--skip-unknown",
        action="store_true",
        help="with --history: leave out partitions whose offset is not known",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        required=True,
        help="file to write, which must not exist (- for standard output)",
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if options.at is not None and options.history is None:
        raise RefusedError("--at needs --history DIR: a broker has only the present offsets")
    if options.out != "-" and Path(options.out).exists():
        raise RefusedError(f"-o {options.out}: exists; name another file")
    if "" in options.group:
        raise RefusedError("--group: the group id is empty")
    moment = moment_of("--at", options.at)
    directory = None if options.history is None else open_history(options.history)
    return run_with_admin(
        options, lambda admin: guarded(_export(admin, options, directory, moment))
    )


async def _export(
    admin: Admin,
    options: argparse.Namespace,
    directory: "HistoryDirectory | None",
    moment: datetime | None,
) -> int:
    groups = list(dict.fromkeys(map(GroupId, options.group)))
    if directory is None:
        commits: Mapping[GroupId, Commits] = await committed_by_all(admin, groups)
        source = "committed"
    else:
        commits = {
            group: await _recorded(admin, directory, group, moment, options) for group in groups
        }
        source = "history" if moment is None else f"history at {_text(moment)}"
    if empty := [group for group in groups if not commits[group]]:
        hint = await near_groups(admin, empty)
        print_message(f"group {join_names(empty)} has no committed offsets{hint}")
        return FAILED
    _write(options.out, await export(admin, commits, source))
    if options.out != "-":
        count = sum(map(len, commits.values()))
        print_message(f"wrote {count} offsets of {len(groups)} groups to {options.out}")
    return 0


async def _recorded(
    admin: Admin,
    directory: "HistoryDirectory",
    group: GroupId,
    moment: datetime | None,
    options: argparse.Namespace,
) -> Commits:
    """The commits of a group by its history. Raises StateRefusedError, KohortError."""
    from kohort.history_files.committed import committed_offsets

    reader = read_group(directory, group, moment)
    warn_of_others(reader, group)
    offsets = committed_offsets(reader)
    await require_same_history(admin, reader.snapshot, directory.files.location)
    if moment is not None:
        await require_reached(admin, reader, offsets, int(moment.timestamp() * 1000))
    targets = targets_of(offsets, ())
    require_certain(offsets, targets, reader.coverage(), skip_unknown=options.skip_unknown)
    require_topics(targets, await topic_ids(admin, {tp.topic for tp in targets.origins}))
    _warn(targets)
    return {tp: commit for tp, commit in targets.commits.items() if commit is not None}


def _warn(targets: Targets) -> None:
    if targets.unknown:
        warn(f"not known, and left out: {join_names(map(str, targets.unknown))}")


async def export(admin: Admin, commits: Mapping[GroupId, Commits], source: str) -> Export:
    """The commits with the records around them. Raises KohortError."""
    partitions = {tp for of_group in commits.values() for tp in of_group}
    ids = (await topic_ids(admin, {tp.topic for tp in partitions})).ids
    ends = await admin.ends(partitions, isolation="read_committed")
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(tp: TopicPartition, commit: OffsetAndMetadata) -> ExportedOffset:
        async with at_once:
            return await _exported(admin, tp, commit, ids.get(tp.topic), ends)

    groups = {
        group: tuple(await asyncio.gather(*(one(*entry) for entry in sorted(of_group.items()))))
        for group, of_group in commits.items()
    }
    cluster_id = (await admin.cluster.metadata(())).cluster_id
    return Export(source=source, cluster_id=cluster_id, made_at_ms=now_ms(), groups=groups)


async def _exported(
    admin: Admin,
    tp: TopicPartition,
    commit: OffsetAndMetadata,
    topic_id: UUID | None,
    ends: Mapping[TopicPartition, tuple[int, int]],
) -> ExportedOffset:
    if tp not in ends:
        raise KohortError(f"no records of {tp}: unknown partition, or it has no leader")
    before, at = await marks_around(admin.cluster, tp, commit.offset, ends[tp])
    return ExportedOffset(partition=tp, topic_id=topic_id, commit=commit, before=before, at=at)


def _write(path: str, export: Export) -> None:
    """Raises RefusedError."""
    text = export.to_json()
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RefusedError(f"-o {path}: cannot be written: {error.strerror or error}") from None


def _text(moment: datetime) -> str:
    return iso(int(moment.timestamp() * 1000))
