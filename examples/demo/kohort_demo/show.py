"""What happens when: three members, a fourth, one that leaves, one that dies, and the end.

Seen ten times a second. The show's clock stands still while it waits for the group, as members that
start slowly would otherwise miss their part.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kohort.cli.rebalance_causes import describe_causes
from kohort.coordinator.journal import Rebalance
from kohort_demo.crew import Crew, Library
from kohort_demo.errors import DemoError
from kohort_demo.group import GroupState, group_state
from kohort_demo.loading import TOPIC, Ends
from kohort_demo.server import Server
from kohort_demo.summary import Outcome
from kohort_demo.tally import WorkTally, tally
from kohort_demo.view import Note, Scene
from kohort_demo.words import became
from kohort_demo.work import Job, Pace

FRAME_SECONDS = 0.1
PATIENCE_SECONDS = 600.0
"""How long nothing may change in the group before the show gives up."""
FIRST = {"member-1": Library.KOHORT, "member-2": Library.KOHORT, "member-3": Library.LIBRDKAFKA}
LATE, LEAVER, VICTIM = "member-4", "member-1", "member-2"
JOINS_AT, LEAVES_AT, DIES_AT = 0.18, 0.34, 0.50
"""Shares of the show after which the fourth member is started, one of the first asked to leave,
another one killed.
"""

SPARED_UNTIL = 0.6
"""Until then the kill waits for a moment in which its victim has work in hand that it has not
committed.
"""

Watcher = Callable[[Scene], None]


class Show:
    """One group at work on the topic, from its first member to its last commit."""

    def __init__(self, server: Server, ends: Ends, seconds: float, log: Path) -> None:
        self._server = server
        self._ends = ends
        self._seconds = seconds
        self._log = log
        self._pace = Pace(log.with_name("pace"))
        self._started = time.time()
        self._share = 0.0
        """How far the show is, 0 to 1."""
        self._said: list[Note] = []
        self.group_id = next_name(server.groups())
        self._group = GroupState(group=self.group_id)

    def run(self, watch: Watcher) -> Outcome:
        """Run the show; `watch` gets every frame. Raises DemoError if the group does not finish."""
        self._started = time.time()
        self._pace.set(self._share)
        with Crew(self._job, self._log) as crew:
            script = self._script(crew)
            until = next(script)
            begun = changed = time.monotonic()
            while (group := self._frame(crew, watch)).lag:
                now = time.monotonic()
                if group != self._group:
                    changed = now
                elif now - changed > PATIENCE_SECONDS:
                    raise DemoError(
                        f"the group made no progress in {PATIENCE_SECONDS:g} s, with a lag of "
                        f"{group.lag:,}: see {self._server.log} and {self._log}"
                    )
                self._group = group
                self._share = min(until, self._share + (now - begun) / self._seconds)
                self._pace.set(self._share)
                begun, until = now, next(script, 1.0)
                time.sleep(FRAME_SECONDS)
            departures = dict(crew.departures)
            crew.leave(lambda: self._frame(crew, watch))
            last = self._frame(crew, watch)
            return Outcome(
                group=last,
                tally=tally(crew.reports),
                libraries=crew.libraries,
                started=self._started,
                departures=departures,
                killed=crew.killed,
            )

    def _script(self, crew: Crew) -> Iterator[float]:
        """What is done to the group; `yield` waits for the next frame.

        It yields the share beyond which the show does not go on until then.
        """
        for name, library in FIRST.items():
            crew.start(name, library)
        yield from self._until(JOINS_AT, members=3)
        crew.start(LATE, Library.KOHORT)
        self._say(f"{LATE} is started")
        yield from self._until(LEAVES_AT, members=4)
        crew.ask_to_leave(LEAVER)
        self._say(f"SIGTERM to {LEAVER}: it finishes what it has in hand, commits and leaves")
        while crew.departures[LEAVER].gone is None:
            yield DIES_AT
        yield from self._until(DIES_AT, members=3)
        while self._share < SPARED_UNTIL and not in_hand(VICTIM, self._group, tally(crew.reports)):
            yield SPARED_UNTIL
        crew.kill(VICTIM)
        self._say(f"kill -9 {VICTIM}: it cannot leave, or commit", alarm=True)

    def _until(self, share: float, members: int) -> Iterator[float]:
        """Until this share of the show is over and the group has so many members and is at rest."""
        while (
            self._share < share
            or self._group.state != "Stable"
            or len(self._group.members) != members
        ):
            yield share

    def _job(self, name: str) -> Job:
        return Job(self._server.address, self.group_id, TOPIC, name, self._pace)

    def _say(self, text: str, alarm: bool = False) -> None:
        self._said.append(Note(time.time() - self._started, text, alarm))

    def _frame(self, crew: Crew, watch: Watcher) -> GroupState:
        group = group_state(self.group_id, self._server.group(self.group_id), TOPIC, self._ends)
        now = time.time()
        scene = Scene(
            group=group,
            seconds=now - self._started,
            libraries=crew.libraries,
            processed=tally(crew.listen()).processed,
            departed={name: now - departure.asked for name, departure in crew.departures.items()},
            killed={name: now - at for name, at in crew.killed.items()},
            notes=merged(self._said, group.journal, self._started),
        )
        watch(scene)
        return group


def in_hand(member: str, group: GroupState, processed: WorkTally) -> int:
    """Records of the member's partitions that were processed and not yet committed."""
    owned = [at for at in group.partitions if at.owner == member]
    return sum(max(0, processed.reached.get(at.partition, 0) - at.committed) for at in owned)


def merged(said: Sequence[Note], journal: Sequence[Rebalance], started: float) -> list[Note]:
    """What the show did and what the server's journal says of it, in the order of time."""
    return sorted([*said, *_told(journal, started)], key=lambda note: note.seconds)


def _told(journal: Sequence[Rebalance], started: float) -> Iterator[Note]:
    for rebalance in journal:
        spent = rebalance.join_ms + rebalance.sync_ms
        yield Note(
            rebalance.ended / 1000 - started,
            f"{became(rebalance)} after {spent:,} ms: {describe_causes(rebalance.causes)}",
        )


def next_name(taken: Sequence[str]) -> str:
    """A group that no earlier run on this data used: its offsets would be at the end already."""
    number = 1
    while (name := f"flight-counters-{number}") in taken:
        number += 1
    return name
