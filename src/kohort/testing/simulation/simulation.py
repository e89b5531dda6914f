"""What a scenario uses: topics, programs, clients and time of one simulation."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.testing.embedded.group_state import GroupState, read_group
from kohort.testing.embedded.topic_records import TopicRecord, read_records
from kohort.testing.simulation.faults import WEIGHTS, Fault, FaultKind, random_faults
from kohort.testing.simulation.injection import Injector
from kohort.testing.simulation.invariants import CommitHistory, check_doubled, check_promises
from kohort.testing.simulation.ledger import Ledger
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.machine_sources import wall_clock_s
from kohort.testing.simulation.members import SimulatedGroup, SimulatedProducer
from kohort.testing.simulation.network import SERVER_IP, SERVER_PORT, Network
from kohort.testing.simulation.process import Process, current_process
from kohort.testing.simulation.programs import Main, Program
from kohort.testing.simulation.server import SimulatedServer
from kohort.testing.simulation.timeline import Timeline
from kohort.types import TopicPartition

SETTLE_S: Final = 180.0
"""Simulated seconds after the last fault in which every member has to converge."""
STOP_S: Final = 120.0
"""Simulated seconds that a program has to end when it is cancelled."""
_POLL_S: Final = 0.25
_CHECK_INTERVAL_S: Final = 5.0


class SimulatedClock:
    """The time of a simulation."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._loop.time()

    def time(self) -> float:
        """Seconds since the Unix epoch by the wall clock of the process that asks."""
        return wall_clock_s(self._loop)

    async def sleep(self, seconds: float) -> None:
        """Let simulated time pass."""
        await asyncio.sleep(seconds)


class Simulation:
    """One simulated server, with programs that use it."""

    bootstrap: Final = f"{SERVER_IP}:{SERVER_PORT}"
    """`bootstrap` of the server, for programs that make their own clients."""

    def __init__(
        self,
        seed: int,
        loop: SimulatedLoop,
        settings: Mapping[str, object],
        planned: Sequence[Fault] | None,
    ) -> None:
        """`planned` are the faults of `run`; None: random ones. Raises ConfigError."""
        self.seed = seed
        self.random = Random(f"{seed} scenario")
        """Random numbers for the scenario, by the seed."""
        self.clock = SimulatedClock(loop)
        self.timeline = Timeline(loop)
        self.ledger = Ledger(self.timeline, self._topic_name, loop.stop_running)
        self.injected: list[Fault] = []
        """The faults of `run` so far, planned or random."""
        self.programs: dict[str, Program] = {}
        self.network = Network(loop, Random(f"{seed} network"), self.ledger)
        self.server = SimulatedServer(
            loop, self.network, Random(f"{seed} disk"), settings, self._server_started
        )
        self._loop = loop
        self._planned = planned
        self._fault_random = Random(f"{seed} faults")
        self._members: dict[SimulatedGroup, Process] = {}
        self._history = CommitHistory(self.ledger)
        self._injector = Injector(
            loop, self.network, self.server, self.programs, self.timeline, Random(f"{seed} effects")
        )
        self._is_settled = False
        loop.network = self.network

    def __repr__(self) -> str:
        return f"<Simulation seed={self.seed} at {self._loop.time():.3f} s>"

    # --- clients ---

    async def topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. Raises KafkaError."""
        controller = self.server.broker.controller
        controller.topics.create(name, partitions, configs or {})
        await controller.writer.durable()

    def consumer(self, group_id: str, **options: Any) -> SimulatedGroup:
        """A `ConsumerGroup` of the program that calls this, to be entered. Raises ConfigError.

        Options are those of `ConsumerGroup`. The partitions of its generations are checked.
        """
        process = current_process.get(self._loop.main)
        options = {"bootstrap": self.bootstrap, "client_id": process.name, **options}
        return SimulatedGroup(self.ledger, self._members, process, group_id, **options)

    def producer(self, **options: Any) -> SimulatedProducer:
        """A `Producer` of the program that calls this, to be entered. Raises ConfigError.

        Options are those of `Producer`. If it is idempotent, no record may be stored twice.
        """
        process = current_process.get(self._loop.main)
        options = {"bootstrap": self.bootstrap, "client_id": process.name, **options}
        return SimulatedProducer(self.ledger, **options)

    def allow_rewinds(self, group_id: str) -> None:
        """Let members of a group commit lower offsets than before, as after a seek."""
        self.ledger.rewinding_groups.add(group_id)

    # --- programs ---

    def start(self, name: str, main: Main, *args: object, restarts: bool = True) -> Program:
        """Run `main(*args)` as a program: a process on a machine of its own.

        It is started again after a crash, and after an error of Kohort if `restarts`. Any other
        error fails the simulation. Raises KohortError if the name is taken.
        """
        if name in self.programs or name in (self._loop.main.name, "kafka"):
            raise KohortError(f"there is a process {name!r} already: give each a name of its own")
        program = Program(
            name,
            main,
            args,
            self._loop,
            self.network,
            self.timeline,
            self._program_failed,
            restarts=restarts,
        )
        self.programs[name] = program
        program.start()
        return program

    def _program_failed(self, program: Program, error: BaseException) -> None:
        self.ledger.report("program", f"{program.name} ended with {error!r}")

    # --- time and faults ---

    async def run(
        self,
        seconds: float,
        *,
        per_minute: float = 6.0,
        weights: Mapping[FaultKind, float] = WEIGHTS,
    ) -> None:
        """Let time pass, with so many random faults per minute on average.

        `weights` are the proportions of the kinds; a kind that it lacks does not happen. Without
        durability=fsync there is no power loss.
        """
        start_s = self._loop.time()
        if not self.server.is_durable:
            weights = {kind: weight for kind, weight in weights.items() if kind != "power loss"}
        if self._planned is None:
            faults = random_faults(
                self._fault_random,
                start_s,
                seconds,
                list(self.programs),
                per_minute=per_minute,
                weights=weights,
            )
        else:
            faults = [fault for fault in self._planned if start_s <= fault.at_s < start_s + seconds]
        self.injected += faults
        for fault in faults:
            await self._pass_time(fault.at_s)
            self.inject(fault)
        await self._pass_time(start_s + seconds)

    async def _pass_time(self, until_s: float) -> None:
        while (left_s := until_s - self._loop.time()) > 0:
            await asyncio.sleep(min(left_s, _CHECK_INTERVAL_S))
            if self.server.has_started.is_set():
                self._history.check(self.server.broker)

    def inject(self, fault: Fault) -> None:
        """Have a fault happen now, whatever its `at_s` is. Raises KohortError."""
        self._is_settled = False
        self._injector.inject(fault)

    async def settle(self, seconds: float = SETTLE_S) -> None:
        """End all faults, and wait until every member of every group has converged.

        A group has when it is stable, its members are exactly those that are entered, and each
        partition of its topics is owned by one of them, in its task scopes as on the server. What
        has not converged after so many simulated seconds is a violation.
        """
        await self._injector.calm()
        self.timeline.add("all faults have ended")
        end = self._loop.time() + seconds
        await asyncio.sleep(_POLL_S)  # a program that has just been started begins to join
        while (waits_for := self._unsettled()) and self._loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        if waits_for:
            self.ledger.report("convergence", f"after {seconds:g} s without faults: {waits_for}")
        self._is_settled = True

    def _unsettled(self) -> str:
        """Why the groups have not converged; "" if they have."""
        for program in self.programs.values():
            if not program.is_running and not program.has_finished.is_set():
                return f"{program.name} does not run"
        groups: dict[str, list[SimulatedGroup]] = {}
        for member, process in self._members.items():
            if not process.has_ended:
                if not member.is_entered:
                    return f"a member of {process.name} joins {member.config.group_id}"
                groups.setdefault(member.config.group_id, []).append(member)
        for group_id, members in groups.items():
            if why := self._unsettled_group(group_id, members):
                return why
        return ""

    def _unsettled_group(self, group_id: str, members: Sequence[SimulatedGroup]) -> str:
        group = self.group(group_id)
        on_server = {member.member_id: set(member.assignment) for member in group.members}
        in_scopes = {member.member_id: set(member.metrics().assignment) for member in members}
        owned = [partition for assignment in in_scopes.values() for partition in assignment]
        expected = {
            TopicPartition(topic, partition)
            for member in members
            for topic in member.config.topics
            for partition in self._partitions(topic)
        }
        if (
            group.state == "Stable"
            and on_server == in_scopes
            and len(owned) == len(set(owned))
            and set(owned) >= expected
        ):
            return ""
        return f"members have {_shown(in_scopes)}; {group}"

    def _partitions(self, topic: str) -> range:
        found = self.server.broker.topics.get(topic)
        return range(0 if found is None else len(found.partitions))

    # --- what a scenario sees ---

    def group(self, group_id: str) -> GroupState:
        """A group as the server has it. Raises KohortError while it does not serve."""
        return read_group(self._serving(), group_id)

    def records(self, topic: str) -> list[TopicRecord]:
        """The committed records of a topic. Raises KafkaError, KohortError as `group`."""
        return read_records(self._serving(), topic)

    def _serving(self) -> Broker:
        if not self.server.has_started.is_set():
            raise KohortError("the server does not serve after a fault: `settle` ends all faults")
        return self.server.broker

    def note(self, text: str) -> None:
        """Add a line to the timeline."""
        self.timeline.add(f"{current_process.get(self._loop.main).name}: {text}")

    def _topic_name(self, topic_id: UUID) -> str | None:
        topic = self.server.broker.topics.by_id(topic_id)
        return None if topic is None else topic.name

    # --- checks ---

    def _server_started(self) -> None:
        self.timeline.add("kafka: serves")
        self._history.begin()
        self.check()

    def check(self) -> None:
        """Compare the server's data with what clients were promised."""
        check_promises(self.server.broker, self.ledger)
        self._history.check(self.server.broker)

    async def finish(self) -> None:
        """Converge, stop all programs, and check everything."""
        if not self._is_settled:
            await self.settle()
        for program in self.programs.values():
            if not await program.stop(STOP_S):
                self.ledger.report("convergence", f"{program.name} did not end within {STOP_S:g} s")
        self.check()
        check_doubled(self.server.broker, self.ledger)
        await self.server.stop()


def _shown(assignments: Mapping[str, set[TopicPartition]]) -> str:
    return "; ".join(
        f"{member}: {', '.join(map(str, sorted(assignment))) or 'nothing'}"
        for member, assignment in assignments.items()
    )
