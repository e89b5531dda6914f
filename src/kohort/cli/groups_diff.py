"""Compare a plan of `kohort groups reset` with the current offsets of its groups.

A partition is `new` if it has the offset after the reset, `old` if it has the offset before, else
`moved`. Exit code 0 if all are `new`, 3 if not.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from kohort.cli import plan_files
from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FOUND
from kohort.cli.output import Table, add_output_argument, check_output, show
from kohort.client.admin import Admin
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets import OffsetChange, committed_by_all, require_same_cluster
from kohort.types import TopicPartition

NEW, OLD, MOVED = "new", "old", "moved"
COLUMNS = ("GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET", "CURRENT-OFFSET", "STANDS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="plan file of `kohort groups reset`"
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    plan = plan_files.read(options.file)

    async def work(admin: Admin) -> int:
        await require_same_cluster(admin, plan)
        current = await committed_by_all(admin, plan.groups)
        rows = [_row(change, current[change.group]) for change in plan.changes]
        as_json = [
            {name.lower().replace("-", "_"): cell for name, cell in zip(COLUMNS, row, strict=True)}
            for row in rows
        ]
        show(options.output, Table(COLUMNS, rows), as_json)
        return 0 if all(row[-1] == NEW for row in rows) else FOUND

    return run_with_admin(options, work)


def _row(
    change: OffsetChange, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> tuple[object, ...]:
    old, new, current = (
        None if offset is None else offset.offset
        for offset in (change.old, change.new, committed.get(change.partition))
    )
    state = NEW if current == new else OLD if current == old else MOVED
    return (
        change.group,
        change.partition.topic,
        change.partition.partition,
        old,
        new,
        current,
        state,
    )
