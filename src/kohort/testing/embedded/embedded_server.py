"""The server of an `EmbeddedKafka`, on the event loop of its thread."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kohort.coordinator.requests import LeaveGroup, LeavingMember, OffsetCommit, OffsetToCommit
from kohort.coordinator.responses import LeaveGroupResponse, OffsetCommitResponse
from kohort.errors import KafkaError, KohortError
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.server.net import Exchange
from kohort.testing.embedded.clients import Clients
from kohort.testing.embedded.exchange_log import ExchangeLog
from kohort.testing.embedded.faults import Fault, Faults
from kohort.testing.embedded.group_state import GroupState, read_group
from kohort.testing.embedded.partitions import find_log
from kohort.testing.embedded.request_hook import RequestHook
from kohort.testing.embedded.server_time import ServerClock, ServerTimeLoop
from kohort.testing.embedded.timeline import Timeline
from kohort.testing.embedded.traffic_recorder import Recordings
from kohort.types import Instant, TopicPartition

DEFAULTS: Final[Mapping[str, object]] = {
    "listeners": "127.0.0.1:0",
    "storage": "memory",
    "connections.max.idle.ms": -1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1,
    "group.consumer.min.session.timeout.ms": 1,
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
"""Settings for tests.

Groups do not wait for more members, any session timeout is accepted, and a connection stays open
while time is advanced.
"""
_COMMIT_VERSION: Final = 9
_LEAVE_VERSION: Final = 5


class EmbeddedServer:
    """A broker whose clients, faults and time a test controls."""

    def __init__(
        self, settings: Mapping[str, object], directory: Path | None, loop: ServerTimeLoop
    ) -> None:
        """`settings` are added to `DEFAULTS`. With a directory, the records are stored there.

        Raises ConfigError.
        """
        stored = {} if directory is None else {"storage": "local", "log.dir": str(directory)}
        self._settings = {**DEFAULTS, **stored, **settings}
        self.loop = loop
        self.clock = ServerClock(loop)
        self.clients = Clients()
        self.timeline = Timeline(self.clock)
        self.faults = Faults(self._fault_met)
        self.recordings = Recordings(loop)
        self.exchanges = ExchangeLog(self.clock)
        self._restarting = asyncio.Lock()
        self._start_error: str | None = None
        self.broker = self._new_broker()
        loop.on_jump = self._time_advanced

    def _new_broker(self) -> Broker:
        hook = RequestHook(self.clients, self.faults, self.recordings, self.exchanges)
        return Broker(Config(self._settings), clock=self.clock, intercept=hook)

    async def start(self) -> None:
        """Start the broker; returns when it serves all groups. Raises KohortError."""
        await self.broker.start()
        await self.broker.groups.loaded()
        await self.broker.transactions.loaded()
        self.broker.groups.on_rebalance.append(self.timeline.add_rebalance)

    async def restart(self) -> None:
        """Stop the broker, and start another one with its records on the same port.

        Raises KohortError if the records are in memory.
        """
        if self._settings["storage"] == "memory":
            raise KohortError(
                "records in memory do not survive a restart: use EmbeddedKafka(directory=…), or "
                "mark the test with @pytest.mark.kafka(disk=True)"
            )
        async with self._restarting:
            self.timeline.add("the server is restarted")
            self._settings["listeners"] = self.listeners
            was_frozen = self.loop.is_frozen
            await self.stop()
            self.faults.begin()
            self.broker = self._new_broker()
            try:
                await self.start()
            except KohortError as error:
                self._start_error = str(error)
                raise
            if was_frozen:
                self.loop.freeze()

    async def serving(self) -> None:
        """Wait for the end of a restart. Raises KohortError if it failed."""
        async with self._restarting:
            if self._start_error is not None:
                raise KohortError(f"the embedded Kafka did not restart: {self._start_error}")

    async def stop(self) -> None:
        """Stop the broker. It waits for its clients, so time runs."""
        self.loop.resume()
        self.faults.end()
        await self.broker.close()

    @property
    def listeners(self) -> str:
        """The setting `listeners` with the ports that are in use."""
        return ",".join(f"{name}://{each}" for name, each in self.broker.addresses.items())

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic. Raises KafkaError."""
        self.broker.controller.topics.create(name, partitions, configs)

    async def read_group(self, group_id: str) -> GroupState:
        """A group with all effects of what has been decided for it."""
        found = self.loop.create_future()
        self.broker.groups.when_logged(
            group_id, lambda _: found.set_result(read_group(self.broker, group_id))
        )
        state: GroupState = await found
        return state

    async def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets of a group without members. Raises KafkaError."""
        for topic, partition in offsets:
            find_log(self.broker, topic, partition)
        committed = self.loop.create_future()
        self.broker.groups.submit(
            OffsetCommit(
                on_response=committed.set_result,
                version=_COMMIT_VERSION,
                group=group,
                generation=-1,
                member_id="",
                instance_id=None,
                offsets=tuple(
                    OffsetToCommit(topic, partition, offset)
                    for (topic, partition), offset in offsets.items()
                ),
            )
        )
        response: OffsetCommitResponse = await committed
        for refused, error in response.results:
            if error:
                raise KafkaError(error, f"{group} cannot commit {TopicPartition(*refused)}")

    async def evict(self, group: str, member_id: str) -> None:
        """Remove a member from its group. Raises KafkaError."""
        evicted = self.loop.create_future()
        self.broker.groups.submit(
            LeaveGroup(
                on_response=evicted.set_result,
                version=_LEAVE_VERSION,
                group=group,
                members=(LeavingMember(member_id=member_id, instance_id=None, reason="evicted"),),
            )
        )
        response: LeaveGroupResponse = await evicted
        error = response.error or next((member.error for member in response.members), None)
        if error:
            raise KafkaError(error, f"{member_id} is no member of {group}")
        self.timeline.add(f"evicted {member_id} from group {group}")

    async def pass_time(self, seconds: float, *, to_next_timer: bool = False) -> None:
        """Let time pass that clients see, too: members without heartbeats expire.

        `to_next_timer`: at most `seconds`, and no more than until the next timer.
        """
        self.loop.on_jump = self.recordings.advanced
        try:
            if to_next_timer:
                await self.loop.advance_to_next_timer(self.loop.time() + seconds)
            else:
                await self.loop.advance(seconds)
        finally:
            self.loop.on_jump = self._time_advanced

    def _time_advanced(self, ms: int) -> None:
        self.recordings.advanced(ms)
        self._keep_sessions(ms)

    def _keep_sessions(self, ms: int) -> None:
        """Give connected members as much time as has passed: their clients do not see it pass.

        A client on the machine's clock sends its next heartbeat after the same time as before.
        """
        for group_id, member_id in self.clients.connected_members():
            group = self.broker.groups.group(group_id)
            session = None if group is None else group.sessions.get(member_id)
            if session is not None:
                session.deadline = Instant(session.deadline + ms)

    def _fault_met(self, fault: Fault, exchange: Exchange) -> None:
        self.timeline.add(f"fault: {fault} (request of client {exchange.client_id!r})")
