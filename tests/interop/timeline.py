"""Events of a group's members, in order, and the rules that every interop test checks on them.

`Timeline` takes events from many processes and lets a test wait for a condition on them.
`violations` says what a correct coordinator and log never let happen to well-behaved clients:

- every record of the topic is processed by someone;
- the next owner starts at the acknowledged commit or further on: none is lost, whoever restarts;
- no commit runs ahead of what was processed;
- within one ownership the offsets follow each other: nothing is skipped, nothing comes twice;
- no partition is owned by two members at one time.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Owns:
    """All that the member owns from this moment on."""

    member: str
    at: int
    partitions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Records:
    member: str
    at: int
    partition: str
    offsets: tuple[int, ...]
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """The server acknowledged these commits, or showed them to an observer."""

    member: str
    at: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Failed:
    member: str
    at: int
    what: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The member left, or was killed: it owns nothing any more."""

    member: str
    at: int


@dataclass(frozen=True, slots=True)
class Began:
    """The member took up a generation; only Kohort's own client tells."""

    member: str
    at: int
    generation: int
    leads: bool
    partitions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How the member was told that a partition is not its own any more; only Kohort's own client
    tells.
    """

    member: str
    at: int
    partition: str
    end: str


Event: TypeAlias = Owns | Records | Committed | Failed | Gone | Began | Ended


OBSERVER = "observer"
"""The `member` of commits that the test saw by asking the server."""


class Timeline:
    """Events as they arrive; safe for many writing threads and one waiting test."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def add(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Come back once `condition` holds; AssertionError with the state of things after
        `seconds`.

        Events are taken while the condition is looked at, which may ask a server: members wait when
        nobody reads what they say.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s: {what}\n{self.summary()}")
            with self._changed:
                self._changed.wait(0.1)

    def owned(self) -> dict[str, frozenset[str]]:
        """What each member owns now, members that own nothing left out."""
        owned: dict[str, frozenset[str]] = {}
        for event in self.events:
            if isinstance(event, Owns):
                owned[event.member] = event.partitions
            elif isinstance(event, Gone):
                owned.pop(event.member, None)
        return {member: partitions for member, partitions in owned.items() if partitions}

    def committed(self) -> dict[str, int]:
        """The highest acknowledged commit of each partition."""
        return _highest(event for event in self.events if isinstance(event, Committed))

    def processed(self) -> dict[str, set[int]]:
        processed: dict[str, set[int]] = {}
        for event in self.events:
            if isinstance(event, Records):
                processed.setdefault(event.partition, set()).update(event.offsets)
        return processed

    def values(self, partition: str = "") -> list[str | None]:
        """The values of all records processed, of one partition or of all, duplicates included."""
        records = [event for event in self.events if isinstance(event, Records)]
        return [
            value
            for event in records
            if partition in ("", event.partition)
            for value in event.values
        ]

    def failures(self) -> list[Failed]:
        return [event for event in self.events if isinstance(event, Failed)]

    def began(self, member: str) -> list[Began]:
        """The generations that the member had, in their order."""
        return [
            event for event in self.events if isinstance(event, Began) and event.member == member
        ]

    def ended(self, member: str) -> list[Ended]:
        return [
            event for event in self.events if isinstance(event, Ended) and event.member == member
        ]

    def summary(self) -> str:
        counts = {
            partition: len(offsets) for partition, offsets in sorted(self.processed().items())
        }
        owned = {member: sorted(partitions) for member, partitions in self.owned().items()}
        last = "\n".join(f"  {failure.member}: {failure.what}" for failure in self.failures()[-5:])
        return (
            f"owned {owned}\nprocessed {counts}\ncommitted {self.committed()}\nlast "
            f"failures:\n{last}"
        )


@dataclass(slots=True)
class Ownership:
    """One member's hold of one partition, from its assignment to its loss."""

    member: str
    partition: str
    since: int
    until: int | None = None
    offsets: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.member}'s hold of {self.partition}"


def ownerships(events: Iterable[Event]) -> list[Ownership]:
    """Every hold in the order in which it began; a record outside of any hold is put into one of
    its own.
    """
    made: list[Ownership] = []
    held: dict[tuple[str, str], Ownership] = {}
    for event in events:
        if isinstance(event, Owns | Gone):
            kept = event.partitions if isinstance(event, Owns) else frozenset()
            for key in [key for key in held if key[0] == event.member and key[1] not in kept]:
                held.pop(key).until = event.at
            for partition in kept:
                if (event.member, partition) not in held:
                    held[event.member, partition] = Ownership(event.member, partition, event.at)
                    made.append(held[event.member, partition])
        elif isinstance(event, Records):
            hold = held.get((event.member, event.partition))
            if hold is None:
                hold = Ownership(event.member, event.partition, event.at, event.at)
                made.append(hold)
            hold.offsets.extend(event.offsets)
    return made


def violations(events: Sequence[Event], ends: Mapping[str, int]) -> list[str]:
    """What went wrong, one sentence each; `ends` are the topic's end offsets, all records wanted up
    to there.
    """
    ordered = sorted(events, key=lambda event: event.at)
    holds = ownerships(ordered)
    return [
        *_unprocessed(ordered, ends),
        *_ahead_of_processing(ordered),
        *_not_consecutive(holds),
        *_lost_commits(ordered, holds),
        *_shared(holds),
    ]


def _highest(commits: Iterable[Committed]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for commit in commits:
        for partition, offset in commit.offsets.items():
            highest[partition] = max(offset, highest.get(partition, 0))
    return highest


def _unprocessed(events: Iterable[Event], ends: Mapping[str, int]) -> Iterator[str]:
    seen: dict[str, set[int]] = {}
    for event in events:
        if isinstance(event, Records):
            seen.setdefault(event.partition, set()).update(event.offsets)
    for partition, end in ends.items():
        if missing := sorted(set(range(end)) - seen.get(partition, set())):
            yield (
                f"{partition}: {len(missing)} of {end} records never processed, from offset "
                f"{missing[0]} on"
            )


def _ahead_of_processing(events: Iterable[Event]) -> Iterator[str]:
    """Of what members say themselves: an observer may see a commit before the member's output was
    read.
    """
    seen: dict[str, set[int]] = {}
    for event in events:
        if isinstance(event, Records):
            seen.setdefault(event.partition, set()).update(event.offsets)
        elif isinstance(event, Committed) and event.member != OBSERVER:
            for partition, offset in event.offsets.items():
                if missing := set(range(offset)) - seen.get(partition, set()):
                    yield (
                        f"{partition}: {offset} committed before offset {min(missing)} was "
                        "processed"
                    )


def _not_consecutive(holds: Iterable[Ownership]) -> Iterator[str]:
    for hold in holds:
        for before, after in zip(hold.offsets, hold.offsets[1:], strict=False):
            if after != before + 1:
                yield f"{hold}: offset {before} was followed by {after}"


def _lost_commits(events: Sequence[Event], holds: Iterable[Ownership]) -> Iterator[str]:
    commits = [event for event in events if isinstance(event, Committed)]
    for hold in holds:
        known = _highest(commit for commit in commits if commit.at < hold.since).get(
            hold.partition, 0
        )
        if hold.offsets and hold.offsets[0] < known:
            yield f"{hold} began at offset {hold.offsets[0]}, although {known} was committed"


def _shared(holds: Sequence[Ownership]) -> Iterator[str]:
    latest: dict[str, Ownership] = {}
    for hold in holds:
        before = latest.get(hold.partition)
        if (
            before is not None
            and before.member != hold.member
            and (before.until is None or before.until > hold.since)
        ):
            yield f"{hold} began before {before.member}'s had ended"
        latest[hold.partition] = hold
