"""What happened: pure, from the journal and the tally to something that rich can draw."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kohort.cli.rebalance_causes import describe_causes
from kohort.coordinator.journal import Rebalance
from kohort_demo.crew import Departure
from kohort_demo.group import GroupState
from kohort_demo.tally import WorkTally
from kohort_demo.words import became
from kohort_demo.work import SESSION_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that the summary tells."""

    group: GroupState
    tally: WorkTally
    libraries: Mapping[str, str]
    """What each member ran on, in the order of their start."""
    started: float
    """When the members were started: seconds since the Unix epoch, as all times here."""
    departures: Mapping[str, Departure]
    """Of the members that left while others worked on."""
    killed: Mapping[str, float]

    @property
    def records(self) -> int:
        """Records in the topic."""
        return sum(partition.end for partition in self.group.partitions)

    def problems(self) -> list[str]:
        """Deviations from the promise: every record processed at least once, and committed.

        A record is processed again if its first worker was killed, or lost its session before it
        committed: `sentences` says so.
        """
        found = list(self.tally.skipped)
        if self.tally.records != self.records:
            found.append(f"{self.tally.records:,} of {self.records:,} records were processed")
        if self.group.lag:
            found.append(f"{self.group.lag:,} records were never committed")
        counted = sum(flights for flights, _left, _minutes in self.tally.carriers.values())
        if counted != self.tally.records:
            found.append(f"{counted:,} records were counted, {self.tally.records:,} processed")
        return found


def summary(outcome: Outcome) -> RenderableType:
    return Group(
        Text("What happened", "bold"),
        _rebalances(outcome),
        Text(),
        _members(outcome),
        Text(),
        *(Text(sentence) for sentence in sentences(outcome)),
    )


def _rebalances(outcome: Outcome) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("at", justify="right")
    table.add_column("why it rebalanced", overflow="fold")
    table.add_column("join", justify="right")
    table.add_column("sync", justify="right")
    table.add_column("members", justify="right")
    table.add_column("became")
    for rebalance in outcome.group.journal:
        table.add_row(
            f"{rebalance.started / 1000 - outcome.started:.1f} s",
            describe_causes(rebalance.causes),
            f"{rebalance.join_ms:,} ms",
            f"{rebalance.sync_ms:,} ms",
            str(len(rebalance.members)),
            became(rebalance),
        )
    return table


def _members(outcome: Outcome) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("member")
    table.add_column("runs on")
    table.add_column("records", justify="right")
    table.add_column("of them processed again by others", justify="right")
    table.add_column("end")
    for name, library in outcome.libraries.items():
        records, again = outcome.tally.processed.get(name, 0), outcome.tally.again.get(name, 0)
        table.add_row(name, library, f"{records:,}", f"{again:,}", _end(outcome, name))
    return table


def _end(outcome: Outcome, name: str) -> str:
    if name in outcome.killed:
        return f"killed at {outcome.killed[name] - outcome.started:.1f} s"
    if name in outcome.departures:
        return f"left at {outcome.departures[name].asked - outcome.started:.1f} s"
    return "left at the end"


def sentences(outcome: Outcome) -> list[str]:
    told = [
        f"{outcome.tally.records:,} of {outcome.records:,} records were processed, counted "
        "and committed."
    ]
    told += [_departure(outcome, name, departure) for name, departure in outcome.departures.items()]
    told += [_death(outcome, name, at) for name, at in outcome.killed.items()]
    told += [
        _loss(outcome, name)
        for name in outcome.tally.again
        if name not in outcome.killed and name not in outcome.departures
    ]
    if delay := _delays(outcome.tally):
        told.append(delay)
    return told


def _departure(outcome: Outcome, name: str, departure: Departure) -> str:
    told = f"{name} was asked to leave at {departure.asked - outcome.started:.1f} s"
    if departure.gone is not None:
        told += (
            f" and gone {departure.gone - departure.asked:.1f} s later, its work "
            "finished, committed and handed over"
        )
    if name in outcome.tally.again:
        return f"{told}. {_loss(outcome, name)}"
    return (
        told
        + f": none of its {outcome.tally.processed.get(name, 0):,} records had to be "
        + ("processed again.")
    )


def _death(outcome: Outcome, name: str, at: float) -> str:
    again = outcome.tally.again.get(name, 0)
    told = f"{name} was killed at {at - outcome.started:.1f} s; "
    noticed = _expired(outcome.group.journal, name, since=at)
    if noticed is not None:
        told += (
            f"its session ended {noticed / 1000 - at:.1f} s later "
            f"(session.timeout.ms={SESSION_TIMEOUT_MS}), "
        )
    return told + (
        f"and {again:,} records that it had processed but not yet committed were processed a "
        "second time."
    )


def _loss(outcome: Outcome, name: str) -> str:
    """A member that did nothing wrong lost partitions: delivery is at least once."""
    again = f"{outcome.tally.again[name]:,} records that {name} processed were processed twice"
    if _expired(outcome.group.journal, name) is None:
        return f"{again}: it lost their partitions before it had committed them."
    return (
        f"{again}: its session expired, as it sent no heartbeat for "
        f"{SESSION_TIMEOUT_MS / 1000:g} s. This machine is busy."
    )


def _expired(journal: tuple[Rebalance, ...], name: str, since: float = 0.0) -> int | None:
    """When the rebalance began that the member's silence caused, the first one since then."""
    for rebalance in journal:
        if rebalance.started >= since * 1000 and any(
            cause.what == "expired" and cause.client_id == name for cause in rebalance.causes
        ):
            return rebalance.started
    return None


def _delays(tally: WorkTally) -> str | None:
    """What the members counted all that for.

    Each record counts once, however often it was processed.
    """
    average = {
        carrier: minutes / left
        for carrier, (_flights, left, minutes) in tally.carriers.items()
        if left
    }
    if not average:
        return None
    best, worst = min(average, key=average.__getitem__), max(average, key=average.__getitem__)
    return (
        f"They counted {sum(counts[0] for counts in tally.carriers.values()):,} flights "
        f"of {len(tally.carriers)} "
        f"carriers: at departure {worst} was {average[worst]:.1f} minutes late on "
        f"average, {best} {average[best]:.1f}."
    )
