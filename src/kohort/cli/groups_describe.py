"""Describe consumer groups: --offsets (committed offsets and lag, the default), --members,
--state.

Lag is end offset - committed offset, at most the records that the log still holds. It is "-"
without a committed offset. LAG-SECONDS is the age of the first record that the group has not read:
by its timestamp, or by ListOffsets if records may not be read.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kohort.cli.client_options import add_client_arguments
from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.group_options import add_group_arguments, check_groups, groups_of
from kohort.cli.group_tables import as_json, members_table, offsets_table, state_table
from kohort.cli.near_names import NO_ACL, REFUSALS, why_not_described
from kohort.cli.options import RefusedError
from kohort.cli.output import add_output_argument, check_output, print_message, show
from kohort.cli.watch import add_watch_arguments, run_watched
from kohort.client.admin import Admin, GroupDescription, PartitionLag, TimeLags
from kohort.client.cluster import Isolation
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KafkaError, KohortError
from kohort.types import GroupId, TopicPartition

OFFSETS, MEMBERS, STATE = "offsets", "members", "state"
ISOLATION_LEVELS: Final[tuple[Isolation, ...]] = ("read_uncommitted", "read_committed")


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
        "--no-time",
        action="store_true",
        help="leave out the lag in seconds, for which the first unread records are fetched",
    )
    parser.add_argument(
        "--isolation-level",
        metavar="LEVEL",
        choices=ISOLATION_LEVELS,
        default="read_uncommitted",
        help="read_committed: lag behind the last stable offset (default: read_uncommitted)",
    )
    parser.add_argument(
        "--max-lag",
        metavar="N",
        type=int,
        help="exit with code 3 if the lag of a partition exceeds N or is unknown (with --offsets)",
    )
    parser.add_argument(
        "--max-lag-seconds",
        metavar="SECONDS",
        type=float,
        help="exit with code 3 if the lag of a partition exceeds SECONDS or is unknown",
    )
    add_watch_arguments(parser)
    add_output_argument(parser)


@dataclass(frozen=True, slots=True)
class Described:
    """A group and the lag of its partitions."""

    group: GroupDescription
    partition_lags: dict[TopicPartition, PartitionLag]


@dataclass(frozen=True, slots=True)
class LagOptions:
    """How lag is measured."""

    isolation: Isolation = "read_uncommitted"
    time_lags: TimeLags | None = None
    """Finds lags in time; None: they are left out."""


DEFAULT_LAG: Final = LagOptions()


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    check_groups(options)
    view = _chosen_view(options)

    time_lags: TimeLags | None = None

    async def work(admin: Admin) -> int:
        nonlocal time_lags
        if view == OFFSETS and not options.no_time:
            # Kept for all refreshes of --watch: it remembers the records of groups that stopped.
            time_lags = time_lags or admin.time_lags(isolation=options.isolation_level)
        measured = LagOptions(options.isolation_level, time_lags)
        return await _describe(admin, options, view, measured)

    return run_watched(options, work)


def _chosen_view(options: argparse.Namespace) -> str:
    chosen = [name for name in (OFFSETS, MEMBERS, STATE) if getattr(options, name)]
    if len(chosen) > 1:
        raise RefusedError("choose one of --offsets, --members and --state")
    limits = {"--max-lag": options.max_lag, "--max-lag-seconds": options.max_lag_seconds}
    for name, limit in limits.items():
        if limit is not None and chosen not in ([], [OFFSETS]):
            raise RefusedError(f"{name} needs --offsets")
    if options.max_lag_seconds is not None and options.no_time:
        raise RefusedError("--max-lag-seconds needs the lag in time: leave out --no-time")
    if options.max_lag_seconds is not None and not options.max_lag_seconds >= 0:
        raise RefusedError(f"--max-lag-seconds {options.max_lag_seconds:g}: is not a duration")
    return chosen[0] if chosen else OFFSETS


async def _describe(
    admin: Admin, options: argparse.Namespace, view: str, measured: LagOptions
) -> int:
    groups = await groups_of(options, admin)
    described, failed = await describe(
        admin, groups, with_offsets=view == OFFSETS, measured=measured
    )
    for group, why in failed.items():
        print_message(f"group {group}: {why}")
    if view != STATE:
        for entry in described:
            if not entry.group.members and options.output == "table":
                print_message(f"group {entry.group.group} has no active members")
    _show(options, view, described)
    if failed:
        return FAILED
    return FOUND if _is_above(described, options) else 0


async def describe(
    admin: Admin,
    groups: Sequence[GroupId],
    *,
    with_offsets: bool,
    measured: LagOptions = DEFAULT_LAG,
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
        group: _assigned(about) | offsets.keys() if with_offsets else set[TopicPartition]()
        for group, (about, offsets) in offsets_by_group.items()
    }
    # Ends are read after the commits: both advance meanwhile, and the lag must not be negative.
    lags = await admin.group_lags(
        {group: offsets for group, (_, offsets) in offsets_by_group.items()},
        partitions,
        isolation=measured.isolation,
    )
    if measured.time_lags is not None:
        lags = dict(zip(lags, await measured.time_lags.find(list(lags.values())), strict=True))
    return [Described(about, lags[group]) for group, (about, _) in offsets_by_group.items()], failed


def _assigned(about: GroupDescription) -> set[TopicPartition]:
    return {partition for member in about.members for partition in member.assignment or ()}


def _show(options: argparse.Namespace, view: str, described: Sequence[Described]) -> None:
    tables = {
        OFFSETS: lambda: offsets_table(
            [(group.group, group.partition_lags) for group in described],
            options.verbose,
            in_time=not options.no_time,
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


def _is_above(described: Sequence[Described], options: argparse.Namespace) -> bool:
    """Whether a lag exceeds a limit of the options, or is unknown though there is one."""
    limit_ms = None if options.max_lag_seconds is None else options.max_lag_seconds * 1000
    return any(
        _exceeds(lag.lag, options.max_lag) or _exceeds(lag.time.lag_ms, limit_ms)
        for group in described
        for lag in group.partition_lags.values()
    )


def _exceeds(lag: int | None, limit: float | None) -> bool:
    return limit is not None and (lag is None or lag > limit)
