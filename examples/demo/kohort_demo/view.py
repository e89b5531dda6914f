"""The picture of one moment: pure, from a `Scene` to something that rich can draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kohort_demo.group import GroupState, PartitionState

COLORS = ("cyan", "magenta", "yellow", "bright_blue", "bright_red", "bright_green")
STATES = {"Stable": "green", "PreparingRebalance": "yellow", "CompletingRebalance": "yellow"}
SIDE_BY_SIDE = 110
"""Columns that both tables need next to each other."""
LEAST_NOTES, MOST_NOTES = 3, 8
BAR = 8
FURNITURE = 9
"""Lines of the picture that are neither rows of a table nor notes."""


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the show's log."""

    seconds: float
    """Since the members were started."""
    text: str
    alarm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that the picture shows."""

    group: GroupState
    seconds: float
    libraries: Mapping[str, str]
    """What each member ever started runs on, in the order of their start."""
    processed: Mapping[str, int]
    departed: Mapping[str, float]
    """Member → seconds since it was asked to leave."""
    killed: Mapping[str, float]
    """Member → seconds since it was killed."""
    notes: Sequence[Note] = ()

    def color(self, name: str | None) -> str:
        names = list(self.libraries)
        return COLORS[names.index(name) % len(COLORS)] if name in names else "white"


def view(scene: Scene, width: int = 100, height: int = 40) -> RenderableType:
    """The picture for a terminal of this size; on a narrow one the tables are stacked."""
    tables = [_partitions(scene), _members(scene)]
    wide = width >= SIDE_BY_SIDE
    rows = (
        max(table.row_count for table in tables)
        if wide
        else sum(table.row_count + 1 for table in tables)
    )
    notes = min(MOST_NOTES, max(LEAST_NOTES, height - rows - FURNITURE))
    body = Columns(tables, padding=(0, 3)) if wide else Group(*tables)
    return Panel(
        Group(
            _headline(scene.group),
            _progress(scene.group),
            Text(),
            body,
            Text(),
            *_log(scene, notes),
        ),
        title=f"[bold]group {scene.group.group}",
        subtitle=f"{scene.seconds:.1f} s",
        subtitle_align="right",
        box=box.ROUNDED,
        padding=(0, 1),
    )


def _headline(group: GroupState) -> Text:
    state = group.state if group.state != "Dead" else "no members yet"
    line = Text.assemble(
        ("state ", "dim"), (f"{state:<20}", STATES.get(group.state, "white") + " bold"),
        ("generation ", "dim"), (f"{group.generation:<4}", "bold"),
        ("members ", "dim"), (f"{len(group.members):<4}", "bold"),
        no_wrap=True, overflow="ellipsis",
    )  # fmt: skip
    if group.protocol:
        line.append("assignor ", "dim").append(group.protocol)
    return line


def _progress(group: GroupState) -> RenderableType:
    total = group.committed + group.lag
    line = Table.grid(padding=(0, 2))
    line.add_row(
        Text("committed", "dim"),
        ProgressBar(
            total=max(total, 1),
            completed=group.committed,
            width=30,
            complete_style="green",
            finished_style="green",
        ),
        Text(f"{group.committed:>7,} of {total:,}"),
        Text.assemble(("lag ", "dim"), f"{group.lag:,}"),
    )
    return line


def _partitions(scene: Scene) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    table.add_column("partition", justify="right")
    table.add_column("owner", min_width=8)
    table.add_column("committed", justify="right", min_width=9)
    table.add_column("lag", justify="right", min_width=7)
    table.add_column("", width=BAR)
    for at in scene.group.partitions:
        table.add_row(
            str(at.partition),
            _owner(scene, at),
            f"{at.committed:,}",
            f"{at.lag:,}",
            _bar(scene, at),
        )
    return table


def _owner(scene: Scene, at: PartitionState) -> Text:
    if at.owner is None:
        return Text("nobody", "dim")
    return Text(at.owner, "strike red" if at.owner in scene.killed else scene.color(at.owner))


def _bar(scene: Scene, at: PartitionState) -> ProgressBar:
    color = scene.color(at.owner) if at.owner else "grey50"
    return ProgressBar(
        total=max(at.end, 1),
        completed=at.committed,
        width=BAR,
        complete_style=color,
        finished_style=color,
    )


def _members(scene: Scene) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    table.add_column("member", min_width=8)
    table.add_column("runs on", min_width=10)
    table.add_column("owns", min_width=5)
    table.add_column("processed", justify="right")
    table.add_column("", min_width=15)
    owned = {member.client_id: member.partitions for member in scene.group.members}
    for name, library in scene.libraries.items():
        owns = " ".join(str(partition) for partition in owned.get(name, ())) or "-"
        processed = f"{scene.processed.get(name, 0):,}"
        table.add_row(
            Text(name, scene.color(name)), library, owns, processed, _condition(scene, name, owned)
        )
    return table


def _condition(scene: Scene, name: str, owned: Mapping[str, Sequence[int]]) -> Text:
    if name in scene.killed:
        return Text(f"killed {scene.killed[name]:.0f} s ago", "red")
    if name in scene.departed:
        return (
            Text("leaving", "yellow")
            if name in owned
            else Text(f"left {scene.departed[name]:.0f} s ago", "dim")
        )
    if name not in owned:
        return Text("joining", "dim")
    return Text("leader" if name == scene.group.leader else "", "dim")


def _log(scene: Scene, lines: int) -> list[Text]:
    """The last notes; always the same number of lines, so that the picture does not jump."""
    shown = [_line(note) for note in scene.notes[-lines:]]
    return [*shown, *(Text() for _ in range(lines - len(shown)))]


def _line(note: Note) -> Text:
    parts = (f"{note.seconds:5.1f} s  ", "dim"), (note.text, "red" if note.alarm else "")
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
