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
from kohort.cli.watching import add_watch_arguments, run_watched
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
    """One group with all that is shown of it."""

    group: GroupDescription
    partition_lags: dict[TopicPartition, PartitionLag]


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    check_groups(options)
    what = _what(options)

    async def work(admin: Admin) -> int:
        return await _describe(admin, options, what)

    return run_watched(options, work)


def _what(options: argparse.Namespace) -> str:
    chosen = [name for name in (OFFSETS, MEMBERS, STATE) if getattr(options, name)]
    if len(chosen) > 1:
        raise RefusedError("choose one of --offsets, --members and --state")
    if options.max_lag is not None and chosen not in ([], [OFFSETS]):
        raise RefusedError("--max-lag needs --offsets")
    return chosen[0] if chosen else OFFSETS


async def _describe(admin: Admin, options: argparse.Namespace, what: str) -> int:
    groups = await groups_of(options, admin)
    found, failed = await describe(admin, groups, with_offsets=what == OFFSETS)
    for group, why in failed.items():
        print_message(f"group {group}: {why}")
    if what != STATE:
        for each in found:
            if not each.group.members and options.output == "table":
                print_message(f"group {each.group.group} has no active members")
    _show(options, what, found)
    if failed:
        return FAILED
    return FOUND if options.max_lag is not None and _is_above(found, options.max_lag) else 0


async def describe(
    admin: Admin, groups: Sequence[GroupId], *, with_offsets: bool
) -> tuple[list[Described], dict[GroupId, str]]:
    """The groups that there are, and why the others cannot be shown."""
    described = await admin.describe_groups(groups)
    committed = await admin.committed(groups) if with_offsets else {}
    failed: dict[GroupId, str] = {}
    known: dict[GroupId, tuple[GroupDescription, dict[TopicPartition, OffsetAndMetadata]]] = {}
    for group in groups:
        about, offsets = described[group], committed.get(group, {})
        if isinstance(about, KohortError) or isinstance(offsets, KohortError):
            error = about if isinstance(about, KohortError) else offsets
            is_refused = isinstance(error, KafkaError) and error.code in REFUSALS
            failed[group] = f"{error}{NO_ACL if is_refused else ''}"
        elif not about.exists:
            failed[group] = await why_not_described(admin, group)
        else:
            known[group] = about, offsets
    wanted = {group: _assigned(about) | offsets.keys() for group, (about, offsets) in known.items()}
    every = set().union(*wanted.values()) if with_offsets else set()
    # After the commits were read: a group at work moves on meanwhile, its log's end even more so.
    ends = await admin.ends(every) if every else {}
    return [
        Described(about, partition_lags(offsets, ends, wanted[group]) if with_offsets else {})
        for group, (about, offsets) in known.items()
    ], failed


def _assigned(about: GroupDescription) -> set[TopicPartition]:
    return {partition for member in about.members for partition in member.assignment or ()}


def _show(options: argparse.Namespace, what: str, found: Sequence[Described]) -> None:
    tables = {
        OFFSETS: lambda: offsets_table(
            [(each.group, each.partition_lags) for each in found], options.verbose
        ),
        MEMBERS: lambda: members_table([each.group for each in found], options.verbose),
        STATE: lambda: state_table([each.group for each in found], options.verbose),
    }
    table = tables[what]()
    if table.rows or options.output != "table":
        show(
            options.output,
            table,
            [
                as_json(each.group, each.partition_lags if what == OFFSETS else None)
                for each in found
            ],
        )
    if what == OFFSETS and options.output == "table":
        for each in found:
            for partition_lag in each.partition_lags.values():
                if partition_lag.note:
                    print_message(
                        f"group {each.group.group}, {partition_lag.partition}: {partition_lag.note}"
                    )


def _is_above(found: Sequence[Described], limit: int) -> bool:
    return any(
        at.lag is None or at.lag > limit for each in found for at in each.partition_lags.values()
    )
