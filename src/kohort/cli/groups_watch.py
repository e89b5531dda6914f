"""Watch one group: its members, what each owns, and the lag of each partition, until Ctrl-C.

Lag is shown in records and in time. After 30 s it has a trend: records per second, and the time
until the lag is 0. Works with any Kafka broker. A terminal shows the current state; other outputs
get a line for each change between two refreshes. If refreshes fail, a line shows the reason, and
the command continues.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.group_tables import partition_list
from kohort.cli.groups_describe import Described, LagOptions, describe
from kohort.cli.lag_history import LagHistory, duration_text, trend_text
from kohort.cli.name_arguments import add_name
from kohort.cli.watch import add_interval_arguments, check_interval, refreshes
from kohort.client.admin import Admin
from kohort.errors import KohortError
from kohort.lag import NO_TREND, Trend
from kohort.types import GroupId, TopicPartition
from kohort.util.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

NOTES: Final = 8
"""Changes that are shown on a terminal."""
MAX_LINES: Final = 40
_BAR: Final = 12
FRAME: Final = 8
"""Lines on a terminal without partitions and notes."""


@dataclass(frozen=True, slots=True)
class Watched(Described):
    """A group, the lag of its partitions, and where the lag goes."""

    trends: Mapping[TopicPartition, Trend] = field(default_factory=dict)
    total: Trend = NO_TREND


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_name(parser, "--group", "GROUP", "group id")
    parser.add_argument(
        "--no-time",
        action="store_true",
        help="leave out the lag in time, for which the first unread records are fetched",
    )
    add_interval_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_interval(options)
    return run_with_admin(options, lambda admin: _watch(admin, options))


async def _watch(admin: Admin, options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    notes: deque[str] = deque(maxlen=NOTES)
    before: Watched | None = None
    failure = ""
    history = LagHistory()
    measured = LagOptions(time_lags=None if options.no_time else admin.time_lags())
    if live is not None:
        live.start()
    try:
        async for _ in refreshes(options):
            try:
                now = await _describe(admin, GroupId(options.group), measured, history)
            except KohortError as error:
                if before is None:
                    raise
                # The group may be unavailable for a while when a broker restarts.
                lines, failure = [] if str(error) == failure else [str(error)], str(error)
            else:
                lines, before, failure = list(changes(before, now)), now, ""
            for text in lines:
                notes.append(f"{datetime.now().astimezone():%H:%M:%S}  {printable(text)}")
                if live is None:
                    console.print(notes[-1], markup=False, highlight=False, soft_wrap=True)
            if live is not None:
                live.update(picture(before, list(notes), console.height - FRAME), refresh=True)
    finally:
        if live is not None:
            live.stop()
    return FAILED if failure else 0


async def _describe(
    admin: Admin, group: GroupId, measured: LagOptions, history: LagHistory
) -> Watched:
    described, failed = await describe(admin, [group], with_offsets=True, measured=measured)
    for why in failed.values():
        raise KohortError(f"group {group}: {why}")
    lags = described[0].partition_lags
    history.add(lags, time.monotonic_ns() // 1_000_000)
    trends = {tp: history.trend(tp) for tp in lags}
    return Watched(described[0].group, lags, trends, history.total())


def lag(described: Described) -> int:
    """The known lag of all partitions."""
    return sum(partition_lag.lag or 0 for partition_lag in described.partition_lags.values())


def changes(before: Watched | None, now: Watched) -> Iterator[str]:
    """The differences between two refreshes as text; for the first one, the state of the group."""
    if before is None:
        count = len(now.group.members)
        members = "1 member" if count == 1 else f"{count} members"
        yield f"group {now.group.group} is {now.group.state}: {members}, lag {lag(now):,}"
        return
    previous, group = before.group, now.group
    old = {member.member_id: member for member in previous.members}
    new = {member.member_id: member for member in group.members}
    for member_id in new.keys() - old.keys():
        yield f"{new[member_id].name} joined"
    for member_id in old.keys() - new.keys():
        yield f"{old[member_id].name} is gone"
    if (previous.state, previous.epoch) != (group.state, group.epoch):
        epoch = "" if group.epoch is None else f", epoch {group.epoch}"
        yield f"{previous.state} → {group.state}{epoch}"
    for member_id in sorted(new.keys() & old.keys()):
        owned, has = old[member_id].assignment or (), new[member_id].assignment or ()
        if set(owned) != set(has):
            yield f"{new[member_id].name} owns {partition_list(sorted(has)) or 'nothing'}"
    for tp, partition_lag in now.partition_lags.items():
        old_lag = before.partition_lags.get(tp)
        if partition_lag.lost and (old_lag is None or not old_lag.lost):
            yield f"{tp}: {partition_lag.note}"
    if lag(before) and not lag(now):
        yield "the lag is 0"
    elif now.total.direction not in (None, before.total.direction):
        yield f"the lag is {now.total.direction}: {trend_text(now.total)}".removesuffix(": steady")


def picture(described: Watched, notes: list[str], most: int = MAX_LINES) -> "RenderableType":
    """The group for a terminal: `most` lines for partitions, and for the notes at the end.

    If there are more partitions, those with the most lag are shown.
    """
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    group, state = described.group, printable(described.group.state)
    headline = Text.assemble(
        ("state ", "dim"), (f"{state}  ", "green" if state == "Stable" else "yellow"),
        ("members ", "dim"), f"{len(group.members)}  ",
        ("assignor ", "dim"), f"{printable(group.assignor) or '-'}  ",
        ("lag ", "dim"), f"{lag(described):,}  ", trend_text(described.total),
    )  # fmt: skip
    owners = {tp: member.client_id for member in group.members for tp in member.assignment or ()}
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for column in ("partition", "owner", "committed", "end", "lag", "time", "trend", ""):
        to_the_left = column in ("partition", "owner", "trend", "")
        table.add_column(column, justify="left" if to_the_left else "right")
    most = max(most - len(notes), 1)
    behind = sorted(
        described.partition_lags.items(), key=lambda item: (-(item[1].lag or 0), item[0])
    )
    more = len(behind) - most
    for tp, partition_lag in sorted(behind[:most]):
        committed = None if partition_lag.committed is None else partition_lag.committed.offset
        bar = ProgressBar(
            total=max(partition_lag.end or 1, 1), completed=committed or 0, width=_BAR
        )
        lag_ms = partition_lag.time.lag_ms
        cells = (
            owners.get(tp, "no owner"),
            committed,
            partition_lag.end,
            partition_lag.lag,
            None if lag_ms is None else duration_text(lag_ms),
            trend_text(described.trends.get(tp, NO_TREND)),
        )
        texts = [
            Text("-" if cell is None else f"{cell:,}" if isinstance(cell, int) else printable(cell))
            for cell in cells
        ]
        table.add_row(Text(printable(str(tp))), *texts, bar)
    lines = [Text(note, no_wrap=True, overflow="ellipsis") for note in notes]
    if more > 0:
        table.add_row(Text(f"and {more:,} more, with less lag", "dim"))
    return Panel(
        Group(headline, Text(), table, Text(), *lines),
        title=Text(printable(f"group {group.group}"), "bold"),
        box=box.ROUNDED,
    )
