"""Describe consumer groups: --offsets (committed offsets and lag, the default), --members,
--state.

Lag is end offset - committed offset, at most the records that the log still holds. It is "-"
without a committed offset.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from kohort.cli.client_options import add_client_arguments
from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.group_options import add_group_arguments, check_groups, groups_of
from kohort.cli.group_tables import as_json, members_table, offsets_table, state_table
from kohort.cli.near_names import NO_ACL, REFUSALS, why_not_described
from kohort.cli.options import RefusedError
from kohort.cli.output import add_output_argument, check_output, print_message, show
from kohort.cli.watch import add_watch_arguments, run_watched
from kohort.client.admin import Admin, GroupDescription, PartitionLag, partition_lags
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KafkaError, KohortError
from kohort.types import GroupId, TopicPartition

OFFSETS, MEMBERS, STATE = "offsets", "members", "state"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_group_arguments(parser)
    parser.add_argument(
        "--offsets", action="store_true", help=("show committed offsets and lag (default)")
    )
    parser.add_argument(
        "--members",
        action="store_true",
        help=("show members; with --verbose also their assignments"),
    )
    parser.add_argument("--state", action="store_true", help="show state, coordinator and assignor")
    parser.add_argument("--verbose", action="store_true", help="show more columns")
    parser.add_argument(
        "--max-lag",
        metavar="N",
        type=int,
        help="exit with code 3 if the lag of a partition exceeds N or is unknown (with --offsets)",
    )
    add_watch_arguments(parser)
    add_output_argument(parser)


@dataclass(frozen=True, slots=True)
class Described:
    """A group and the lag of its partitions."""

    group: GroupDescription
    partition_lags: dict[TopicPartition, PartitionLag]


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    check_groups(options)
    view = _chosen_view(options)

    async def work(admin: Admin) -> int:
        return await _describe(admin, options, view)

    return run_watched(options, work)


def _chosen_view(options: argparse.Namespace) -> str:
    chosen = [name for name in (OFFSETS, MEMBERS, STATE) if getattr(options, name)]
    if len(chosen) > 1:
        raise RefusedError("choose one of --offsets, --members and --state")
    if options.max_lag is not None and chosen not in ([], [OFFSETS]):
        raise RefusedError("--max-lag needs --offsets")
    return chosen[0] if chosen else OFFSETS


async def _describe(admin: Admin, options: argparse.Namespace, view: str) -> int:
    groups = await groups_of(options, admin)
    described, failed = await describe(admin, groups, with_offsets=view == OFFSETS)
    for group, why in failed.items():
        print_message(f"group {group}: {why}")
    if view != STATE:
        for entry in described:
            if not entry.group.members and options.output == "table":
                print_message(f"group {entry.group.group} has no active members")
    _show(options, view, described)
    if failed:
        return FAILED
    return FOUND if options.max_lag is not None and _is_above(described, options.max_lag) else 0


async def describe(
    admin: Admin, groups: Sequence[GroupId], *, with_offsets: bool
) -> tuple[list[Described], dict[GroupId, str]]:
    """The existing groups, and why the others cannot be described."""
    described = await admin.describe_groups(groups)
    committed = await admin.committed(groups) if with_offsets else {}
    failed: dict[GroupId, str] = {}
    offsets_by_group: dict[
        GroupId, tuple[GroupDescription, dict[TopicPartition, OffsetAndMetadata]]
    ] = {}
    for group in groups:
        about, offsets = described[group], committed.get(group, {})
        if isinstance(about, KohortError) or isinstance(offsets, KohortError):
            error = about if isinstance(about, KohortError) else offsets
            is_refused = isinstance(error, KafkaError) and error.code in REFUSALS
            failed[group] = f"{error}{NO_ACL if is_refused else ''}"
        elif not about.exists:
            failed[group] = await why_not_described(admin, group)
        else:
            offsets_by_group[group] = about, offsets
    partitions = {
        group: _assigned(about) | offsets.keys()
        for group, (about, offsets) in offsets_by_group.items()
    }
    every = set().union(*partitions.values()) if with_offsets else set()
    # Ends are read after the commits: both advance meanwhile, and the lag must not be negative.
    ends = await admin.ends(every) if every else {}
    return [
        Described(about, partition_lags(offsets, ends, partitions[group]) if with_offsets else {})
        for group, (about, offsets) in offsets_by_group.items()
    ], failed


def _assigned(about: GroupDescription) -> set[TopicPartition]:
    return {partition for member in about.members for partition in member.assignment or ()}


def _show(options: argparse.Namespace, view: str, described: Sequence[Described]) -> None:
    tables = {
        OFFSETS: lambda: offsets_table(
            [(group.group, group.partition_lags) for group in described], options.verbose
        ),
        MEMBERS: lambda: members_table([group.group for group in described], options.verbose),
        STATE: lambda: state_table([group.group for group in described], options.verbose),
    }
    table = tables[view]()
    if table.rows or options.output != "table":
        show(
            options.output,
            table,
            [
                as_json(group.group, group.partition_lags if view == OFFSETS else None)
                for group in described
            ],
        )
    if view == OFFSETS and options.output == "table":
        for entry in described:
            for lag in entry.partition_lags.values():
                if lag.note:
                    print_message(f"group {entry.group.group}, {lag.partition}: {lag.note}")


def _is_above(described: Sequence[Described], limit: int) -> bool:
    return any(
        partition_lag.lag is None or partition_lag.lag > limit
        for group in described
        for partition_lag in group.partition_lags.values()
    )
