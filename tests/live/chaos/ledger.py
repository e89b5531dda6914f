"""What the clients of a chaos run were told, written down while it runs.

Clients on several threads write to one ledger. Each entry is one append or one assignment to a
container, which Python does whole.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Partition: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Acknowledged(NamedTuple):
    """A record that a producer was told is in the log."""

    partition: Partition
    offset: int
    """-1: the client does not know it."""
    value: int


class Committed(NamedTuple):
    """A commit that a member was told is in the log."""

    group: str
    partition: Partition
    offset: int


def commit_mark(client: str) -> str:
    """The metadata of a commit that a client is about to send."""
    return f"{client} {_now_ms()}"


def is_late(mark: str, since_ms: int) -> bool:
    """Whether a commit was sent first before that time, and may have been tried again since.

    aiokafka tries one again in its next generation, when others have committed more. A commit
    without a mark is never late.
    """
    _, _, sent_ms = mark.rpartition(" ")
    return sent_ms.isdecimal() and int(sent_ms) <= since_ms


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Owned(NamedTuple):
    """An assignment as the member got it."""

    group: str
    generation: int | None
    """None: the client does not tell it."""
    member_id: str
    partitions: frozenset[Partition]


@dataclass
class Ledger:
    acknowledged: dict[str, list[Acknowledged]] = field(default_factory=lambda: defaultdict(list))
    """By topic, in the order in which the producer was told."""
    committed: dict[tuple[str, Partition], dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """Offsets by group and partition, and by client in the order in which it was told."""
    highest: dict[tuple[str, Partition], tuple[int, int]] = field(default_factory=dict)
    """The highest of them, with the time in ms when the member was told."""
    owned: list[Owned] = field(default_factory=list)
    read: dict[tuple[Partition, int], bytes] = field(default_factory=dict)
    """What any member read, by partition and offset."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Partitions of each topic that has grown."""
    report: Callable[[str], None] = lambda _: None
    violations: list[str] = field(default_factory=list)
    """What was seen to be wrong while the run went on."""
    active: dict[str, float] = field(default_factory=dict)
    """By client: when it last succeeded with its work, by the monotonic clock."""
    outages: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By client: the longest time from one success to the next, in seconds."""
    replaced: Counter[str] = field(default_factory=Counter)
    """By client: how often its library gave up, and another instance took its place."""
    errors: dict[str, str] = field(default_factory=dict)
    """By client: the last error that its library gave to the application."""

    @property
    def commits(self) -> int:
        """How many were acknowledged."""
        return sum(len(told) for each in self.committed.values() for told in each.values())

    def record_acknowledged(self, client: str, partition: Partition, offset: int, value: int):
        self.acknowledged[partition[0]].append(Acknowledged(partition, offset, value))
        self._succeeded(client)

    def record_committed(self, client: str, group: str, partition: Partition, offset: int) -> None:
        key = group, partition
        self.committed[key][client].append(offset)
        if offset >= self.highest.get(key, (0, 0))[0]:
            self.highest[key] = offset, _now_ms()
        self._succeeded(client)

    def record_owned(
        self, group: str, generation: int | None, member_id: str, partitions: Iterable[Partition]
    ) -> None:
        self.owned.append(Owned(group, generation, member_id, frozenset(partitions)))

    def record_read(self, client: str, partition: Partition, offset: int, value: bytes) -> None:
        known = self.read.setdefault((partition, offset), value)
        if known != value:
            self.violation(f"{client} read {value!r} at {partition} {offset}, before it {known!r}")
        self._succeeded(client)

    def _succeeded(self, client: str) -> None:
        now = time.monotonic()
        self.outages[client] = max(self.outages[client], now - self.active.get(client, now))
        self.active[client] = now

    def violation(self, text: str) -> None:
        self.violations.append(text)
        self.report(f"VIOLATION {text}")

    def check_committed(
        self, key: tuple[str, Partition], known: tuple[int, int], offset: int, mark: str
    ) -> None:
        """Look at what is committed now. `known` was `highest` before that was asked for."""
        highest, told_ms = known
        if offset >= highest:
            return
        if not is_late(mark, told_ms):
            self.violation(
                f"{key}: {offset} is committed ({mark}), after {highest} was acknowledged"
            )
        elif self.highest[key] == known:
            self.highest[key] = offset, _now_ms()
