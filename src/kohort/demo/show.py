"""What happens when: three members, a fourth, a death, and the end; seen ten times a second."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kohort.coordinator.journal import Rebalance
from kohort.demo.crew import Crew
from kohort.demo.errors import DemoError
from kohort.demo.group import GroupState, group_state
from kohort.demo.loading import TOPIC, Ends
from kohort.demo.server import Server
from kohort.demo.summary import Outcome
from kohort.demo.tally import Tally, tally
from kohort.demo.view import Note, Scene
from kohort.demo.words import became, why

FRAME_SECONDS = 0.1
PATIENCE_SECONDS = 40.0
"""What the group may take beyond the members' pace before the show gives up."""
FIRST, LATE, VICTIM = ("member-1", "member-2", "member-3"), "member-4", "member-2"
JOINS_AT, DIES_AT = 0.22, 0.42
"""Shares of the show after which the fourth member is started, and one of the first three killed."""

SPARED_UNTIL = 0.55
"""Until then the kill waits for a moment in which its victim has work in hand that it has not committed."""

Watcher = Callable[[Scene], None]


class Show:
    """One group at work on the topic, from its first member to its last commit."""

    def __init__(self, server: Server, ends: Ends, seconds: float, log: Path) -> None:
        self._server = server
        self._ends = ends
        self._seconds = seconds
        self._log = log
        self._said: list[Note] = []
        self.group_id = next_name(server.groups())

    def run(self, watch: Watcher) -> Outcome:
        """Let it happen; `watch` sees every frame. DemoError if the group does not get to the end."""
        with Crew(self._server.address, self.group_id, TOPIC, self._seconds, self._log) as crew:
            self._started, began = time.time(), time.monotonic()
            for name in FIRST:
                crew.start(name)
            while (group := self._frame(crew, watch)).lag:
                self._act(crew, group, time.monotonic() - began)
                if time.monotonic() - began > self._seconds + PATIENCE_SECONDS:
                    raise DemoError(
                        f"the group still has a lag of {group.lag:,}: see {self._server.log} and {self._log}"
                    )
                time.sleep(FRAME_SECONDS)
            crew.leave()
            last = self._frame(crew, watch)
            return Outcome(
                group=last, tally=tally(crew.reports), names=crew.names, started=self._started, killed=crew.killed
            )

    def _act(self, crew: Crew, group: GroupState, seconds: float) -> None:
        """The fourth member joins, and one dies, each when its time has come and the group is at rest."""
        if group.state != "Stable":
            return
        if LATE not in crew.names:
            if seconds >= JOINS_AT * self._seconds and len(group.members) == len(FIRST):
                crew.start(LATE)
                self._say(f"{LATE} is started")
        elif not crew.killed and seconds >= DIES_AT * self._seconds and len(group.members) == len(FIRST) + 1:
            if seconds < SPARED_UNTIL * self._seconds and not in_hand(VICTIM, group, tally(crew.reports)):
                return
            crew.kill(VICTIM)
            self._say(f"kill -9 {VICTIM}: it cannot leave, or commit", alarm=True)

    def _say(self, text: str, alarm: bool = False) -> None:
        self._said.append(Note(time.time() - self._started, text, alarm))

    def _frame(self, crew: Crew, watch: Watcher) -> GroupState:
        group = group_state(self.group_id, self._server.group(self.group_id), TOPIC, self._ends)
        now = time.time()
        scene = Scene(
            group=group,
            seconds=now - self._started,
            names=crew.names,
            processed=tally(crew.listen()).processed,
            killed={name: now - at for name, at in crew.killed.items()},
            notes=merged(self._said, group.journal, self._started),
        )
        watch(scene)
        return group


def in_hand(member: str, group: GroupState, processed: Tally) -> int:
    """Records of the member's partitions that were processed and not yet committed."""
    owned = [at for at in group.partitions if at.owner == member]
    return sum(max(0, processed.reached.get(at.partition, 0) - at.committed) for at in owned)


def merged(said: Sequence[Note], journal: Sequence[Rebalance], started: float) -> list[Note]:
    """What the show did and what the server's journal says of it, in the order of time."""
    return sorted([*said, *_told(journal, started)], key=lambda note: note.seconds)


def _told(journal: Sequence[Rebalance], started: float) -> Iterator[Note]:
    for rebalance in journal:
        spent = rebalance.join_ms + rebalance.sync_ms
        yield Note(rebalance.ended / 1000 - started, f"{became(rebalance)} after {spent:,} ms: {why(rebalance.causes)}")


def next_name(taken: Sequence[str]) -> str:
    """A group that no earlier run on this data used: its offsets would be at the end already."""
    number = 1
    while (name := f"flight-counters-{number}") in taken:
        number += 1
    return name
