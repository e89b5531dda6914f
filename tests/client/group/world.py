"""A simulated world: members of one group, run for real, and a coordinator, all on a clock that
jumps.

What is real: `ConsumerGroup` with everything beneath it down to the connection, the assignors, and
the coordinator's core. What is simulated: the network (delays, connections that break before or
after a request arrived, members that are cut off while what they sent still arrives later), the
records, and time: where everybody would wait, it jumps. The same seed gives the same run.
"""

import asyncio
from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kohort.client.backoff import Backoff
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import BrokerNode, Metadata, PartitionMetadata, TopicMetadata
from kohort.client.cluster.offsets import EARLIEST, Offset
from kohort.client.config import ClientConfig
from kohort.client.errors import BrokerUnreachableError, RequestTimeoutError
from kohort.client.group.group import ConsumerGroup
from kohort.client.group.run import GroupRun
from kohort.client.net.versions import supported_versions
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup as CoreConsumerGroup
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.topics import TopicImage
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench
from kohort.types import TopicPartition
from runtime.virtual_time import VirtualLoop

GROUP = "g"


def run(world_test, seed=0, **options):
    """Run `world_test(world)` in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_run(world_test, seed, options))


async def _run(world_test, seed, options):
    world = World(seed, **options)
    try:
        return await world_test(world)
    finally:
        await world.close()


class WorldTopics:
    """The world's topics as the coordinator sees them."""

    rack = None

    def __init__(self, world):
        self._world = world
        self.version = self.created_version = 0

    def changed(self):
        self.version = self.created_version = self.version + 1

    @property
    def count(self):
        return len(self._world.topics)

    def names(self):
        return tuple(self._world.topics)

    def by_name(self, name):
        if name not in self._world.topics:
            return None
        return TopicImage(name, self._world.ids[name], len(self._world.topics[name]))

    def by_id(self, topic_id):
        named = {each: name for name, each in self._world.ids.items()}
        return self.by_name(named.get(topic_id))


class Coordinator:
    """`Bench`, whose clock follows the loop's."""

    def __init__(self, topics, **config):
        self.bench = Bench(
            GroupCoordinatorConfig(**{"initial_rebalance_delay_ms": 0, **config}), topics=topics
        )
        self._loop = asyncio.get_running_loop()
        self._start = self.bench.now - round(self._loop.time() * 1_000)
        self._waiting = []
        self._alarm = None
        self.topic_ids = {}

    @property
    def rebalances(self):
        group = self.bench.shard.groups.get(GROUP)
        return group.epoch if isinstance(group, CoreConsumerGroup) else len(self.bench.journal)

    async def ask(self, method, *args, **fields):
        """The answer, when the shard gives it."""
        self.catch_up()
        call = getattr(self.bench, method)(*args, **fields)
        answer = self._loop.create_future()
        self._waiting.append((call, answer))
        self.catch_up()
        return await answer

    def catch_up(self):
        """Let happen what is due, tell the answers, and wake up for what is due next."""
        self.bench.advance(max(0, self._start + round(self._loop.time() * 1_000) - self.bench.now))
        parked = []
        for call, answer in self._waiting:
            if call.parked and not answer.done():
                parked.append((call, answer))
            elif not answer.done():
                answer.set_result(call.responses[0])
        self._waiting = parked
        if self._alarm is not None:
            self._alarm.cancel()
        deadline = self.bench.timers.next_deadline()
        if deadline is not None:
            self._alarm = self._loop.call_at((deadline - self._start + 1) / 1_000, self.catch_up)

    def restart(self):
        """It comes back with what it logged; whoever waits is disconnected."""
        for _, answer in self._waiting:
            if not answer.done():
                answer.set_exception(BrokerUnreachableError("the coordinator went away"))
        self._waiting = []
        self.bench.restart()
        self.catch_up()


class World:
    def __init__(
        self, seed=0, *, topics=None, delay_ms=(0, 5), break_probability=0.0, **coordinator
    ):
        self.random = Random(seed)
        self.loop = asyncio.get_running_loop()
        self._topics_view = WorldTopics(self)
        self.coordinator = Coordinator(self._topics_view, **coordinator)
        self.is_up = True
        self.topics = {name: [0] * count for name, count in (topics or {"orders": 4}).items()}
        """Topic -> the end offset of each partition."""
        self.ids = self.coordinator.topic_ids
        self.ids |= {name: UUID(int=number) for number, name in enumerate(self.topics, 1)}
        self.delay_ms = delay_ms
        self.break_probability = break_probability
        self.late = set()
        """Requests that arrive after their sender gave up."""
        self.clusters = []

    @property
    def now(self):
        return round(self.loop.time() * 1_000)

    async def close(self):
        for task in self.late:
            task.cancel()
        await asyncio.gather(*self.late, return_exceptions=True)

    def produce(self, count, topic="orders"):
        """Append records to random partitions."""
        ends = self.topics[topic]
        for _ in range(count):
            ends[self.random.randrange(len(ends))] += 1

    def delete_topic(self, name):
        del self.topics[name], self.ids[name]
        self._topics_view.changed()
        self.coordinator.bench.delete_topics(name)

    def create_topic(self, name, partitions):
        self.topics[name] = [0] * partitions
        self.ids[name] = UUID(int=self.random.getrandbits(64))
        self._topics_view.changed()

    def committed(self):
        group = self.coordinator.bench.shard.groups.get(GROUP)
        return {} if group is None else {tp: group.offsets[tp].offset for tp in group.offsets}

    def member(self, **options):
        """A `ConsumerGroup` that lives in this world."""
        cluster = FakeCluster(self)
        self.clusters.append(cluster)
        if "pattern" not in options:
            options.setdefault("topics", tuple(self.topics))
        group = SimulatedGroup(GROUP, cluster=cluster, **options)
        group.sim = cluster
        return group


class SimulatedGroup(ConsumerGroup):
    sim: "FakeCluster"

    def _make_fetcher(self, cluster):
        self.fetcher = FakeFetcher(cluster)
        return self.fetcher

    def _make_run(self, cluster, fetcher):
        random = cluster.world.random
        return GroupRun(
            self.config,
            cluster,
            fetcher,
            self._subscription,
            random.uniform,
            list_offsets=list_offsets,
            new_id=lambda: UUID(int=random.getrandbits(128)),
        )


class FakeCluster(Cluster):
    """What `ConsumerGroup` asks of a cluster, and how its member's network is."""

    def __init__(self, world):
        self.world = world
        self.config = ClientConfig(client_id=f"c{len(world.clusters)}")
        self.connections = {}
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.is_dead = False
        self.requests = []

    def backoff(self):
        return Backoff(100, 1_000, self.world.random.uniform)

    async def coordinator_node(self, group):
        if self.is_dead or not self.reachable.is_set() or not self.world.is_up:
            await asyncio.sleep(0.05)
            raise BrokerUnreachableError("no broker answers")
        return 0

    def coordinator_moved(self, group):
        pass

    async def release(self, purpose):
        for each in [name for name in self.connections if name == purpose]:
            await self.connections.pop(each).close()

    async def connection(self, node_id, purpose):
        known = self.connections.get(purpose)
        if known is None or known.closed:
            self.connections[purpose] = known = FakeConnection(self, purpose)
        return known

    async def metadata(self, topics=None, **_):
        await self.coordinator_node(GROUP)
        world = self.world
        found = {}
        for name in world.topics if topics is None else topics:
            if name in world.topics:
                partitions = tuple(
                    PartitionMetadata(index=i, leader=0) for i in range(len(world.topics[name]))
                )
                found[name] = TopicMetadata(name=name, id=world.ids[name], partitions=partitions)
            else:
                found[name] = TopicMetadata(name=name, error=ErrorCode.unknown_topic_or_partition)
        return Metadata(brokers={0: BrokerNode(0, "localhost", 9092)}, topics=found)

    async def topic_names(self, topic_ids):
        await self.coordinator_node(GROUP)
        return {
            topic_id: name for name, topic_id in self.world.ids.items() if topic_id in topic_ids
        }


class FakeConnection:
    def __init__(self, cluster, purpose):
        self.cluster = cluster
        self.world = cluster.world
        self.purpose = purpose
        self.closed = False
        self.open = asyncio.Event()

    async def close(self):
        if not self.closed:
            self.closed = True
            self.open.set()
            self.world.coordinator.bench.disconnect(self)

    def version(self, api):
        return supported_versions(api)[1]

    async def preload(self, *apis, max_version=None):
        pass

    async def send(self, api, *, timeout_ms=None, min_version=0, max_version=None, **fields):
        self.cluster.requests.append((self.world.now, api, fields))
        timeout_ms = timeout_ms or 30_000
        asking = self.world.loop.create_task(self._travel(api, fields))
        closing = self.world.loop.create_task(self.open.wait())
        try:
            await asyncio.wait(
                (asking, closing), timeout=timeout_ms / 1_000, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            closing.cancel()
            if not asking.done():
                # What was sent arrives, whether or not anybody waits for the answer.
                self.world.late.add(asking)
                asking.add_done_callback(self.world.late.discard)
                asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        if asking.done():
            return asking.result()
        if self.closed:
            raise BrokerUnreachableError("the connection was closed")
        await self.close()
        raise RequestTimeoutError(f"{api} was not answered")

    async def _travel(self, api, fields):
        world = self.world
        random = world.random
        await self._pass()
        breaks = random.random() < world.break_probability
        if breaks and random.random() < 0.5:
            await self.close()
            raise BrokerUnreachableError("the connection broke before the request arrived")
        answer = await ANSWERS[api](world.coordinator, self, fields)
        await self._pass()
        if breaks:
            await self.close()
            raise BrokerUnreachableError("the connection broke before the answer arrived")
        return answer

    async def _pass(self):
        """One way through the network."""
        world = self.world
        await asyncio.sleep(world.random.uniform(*world.delay_ms) / 1_000)
        await self.cluster.reachable.wait()
        if self.cluster.is_dead or not world.is_up:
            raise BrokerUnreachableError("the connection is gone")


# --- answers, as kio's classes would have them ---


async def _join(coordinator, connection, fields):
    answer = await coordinator.ask(
        "join",
        fields["group_id"],
        fields["member_id"],
        instance_id=fields["group_instance_id"],
        protocols=[(protocol["name"], protocol["metadata"]) for protocol in fields["protocols"]],
        session_timeout_ms=fields["session_timeout_ms"],
        rebalance_timeout_ms=fields["rebalance_timeout_ms"],
        client_id=connection.cluster.config.client_id,
        reason=fields["reason"],
        connection=connection,
    )
    return SimpleNamespace(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_name=answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            SimpleNamespace(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )


async def _sync(coordinator, _connection, fields):
    answer = await coordinator.ask(
        "sync",
        fields["group_id"],
        fields["member_id"],
        fields["generation_id"],
        [
            (assignment["member_id"], assignment["assignment"])
            for assignment in fields["assignments"]
        ],
        instance_id=fields["group_instance_id"],
        protocol_name=fields["protocol_name"],
    )
    return SimpleNamespace(error_code=answer.error, assignment=answer.assignment)


async def _heartbeat(coordinator, _connection, fields):
    answer = await coordinator.ask(
        "heartbeat",
        fields["group_id"],
        fields["member_id"],
        fields["generation_id"],
        instance_id=fields["group_instance_id"],
    )
    return SimpleNamespace(error_code=answer.error)


async def _leave(coordinator, _connection, fields):
    members = [(member["member_id"], member["group_instance_id"]) for member in fields["members"]]
    answer = await coordinator.ask("leave", fields["group_id"], *members)
    return SimpleNamespace(
        error_code=answer.error,
        members=[SimpleNamespace(error_code=member.error) for member in answer.members],
    )


async def _consumer_heartbeat(coordinator, connection, fields):
    owned = fields["topic_partitions"]
    answer = await coordinator.ask(
        "consumer_heartbeat",
        fields["group_id"],
        fields["member_id"],
        fields["member_epoch"],
        instance_id=fields["instance_id"],
        rack_id=fields["rack_id"],
        rebalance_timeout_ms=fields["rebalance_timeout_ms"],
        topics=fields["subscribed_topic_names"],
        regex=fields.get("subscribed_topic_regex"),
        assignor=fields["server_assignor"],
        owned=None
        if owned is None
        else {each["topic_id"]: tuple(each["partitions"]) for each in owned},
    )
    told = answer.assignment
    return SimpleNamespace(
        error_code=answer.error,
        error_message=answer.error_message,
        member_epoch=answer.member_epoch,
        heartbeat_interval=timedelta(milliseconds=answer.heartbeat_interval_ms),
        assignment=told
        if told is None
        else SimpleNamespace(
            topic_partitions=[
                SimpleNamespace(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in told.items()
            ]
        ),
    )


async def _commit(coordinator, _connection, fields):
    ids = coordinator.topic_ids
    offsets = {
        (topic["name"], partition["partition_index"]): OffsetToCommit(
            topic["name"],
            partition["partition_index"],
            partition["committed_offset"],
            partition["committed_leader_epoch"],
            partition["committed_metadata"],
        )
        for topic in fields["topics"]
        for partition in topic["partitions"]
        if ids.get(topic["name"]) == topic["topic_id"]
    }
    unknown = [
        (TopicPartition(topic["name"], partition["partition_index"]), ErrorCode.unknown_topic_id)
        for topic in fields["topics"]
        for partition in topic["partitions"]
        if ids.get(topic["name"]) != topic["topic_id"]
    ]
    answer = await coordinator.ask(
        "commit",
        fields["group_id"],
        offsets,
        member_id=fields["member_id"],
        generation=fields["generation_id_or_member_epoch"],
        instance_id=fields["group_instance_id"],
    )
    return _by_topic(
        (tp, SimpleNamespace(partition_index=tp.partition, error_code=error))
        for tp, error in [*unknown, *answer.results]
    )


async def _fetch(coordinator, _connection, fields):
    (group,) = fields["groups"]
    asked = [
        (topic["name"], index) for topic in group["topics"] for index in topic["partition_indexes"]
    ]
    answer = await coordinator.ask("fetch", group["group_id"], *asked)
    told = _by_topic(
        (
            TopicPartition(offset.topic, offset.partition),
            SimpleNamespace(
                partition_index=offset.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=offset.error,
            ),
        )
        for offset in answer.offsets
    )
    return SimpleNamespace(groups=[SimpleNamespace(error_code=answer.error, topics=told.topics)])


def _by_topic(told):
    topics: dict[str, Any] = {}
    for tp, each in told:
        topics.setdefault(
            tp.topic, SimpleNamespace(name=tp.topic, partitions=[])
        ).partitions.append(each)
    return SimpleNamespace(topics=list(topics.values()))


ANSWERS = {
    "join_group": _join,
    "sync_group": _sync,
    "heartbeat": _heartbeat,
    "leave_group": _leave,
    "consumer_group_heartbeat": _consumer_heartbeat,
    "offset_commit": _commit,
    "offset_fetch": _fetch,
}


# --- records ---


class FakeBatch(SimpleNamespace):
    """`first` to `next_offset`, without contents."""


class FakeFetcher:
    """Hands out what the world produced, in small batches."""

    def __init__(self, cluster):
        self.world = cluster.world
        self.cluster = cluster
        self.positions = {}
        self.paused = set()
        self.fails = {}

    def add(self, tp, offset, leader_epoch=-1):
        assert tp not in self.positions
        self.positions[tp] = offset

    def remove(self, tp):
        del self.positions[tp]
        self.paused.discard(tp)

    def seek(self, tp, offset):
        self.positions[tp] = offset

    def pause(self, tp):
        self.paused.add(tp)

    def resume(self, tp):
        self.paused.discard(tp)

    def position(self, tp):
        return self.positions[tp]

    def end(self, tp):
        ends = self.world.topics.get(tp.topic, ())
        return ends[tp.partition] if tp.partition < len(ends) else 0

    def lag(self, tp):
        return self.end(tp) - self.positions[tp]

    async def next(self, tp, *, max_wait_ms):
        until = self.world.loop.time() + max_wait_ms / 1_000
        while True:
            if tp in self.fails:
                raise self.fails.pop(tp)
            first = self.positions[tp]
            last = min(self.end(tp), first + self.world.random.randint(1, 5))
            if first < last and tp not in self.paused and not self.cluster.is_dead:
                self.positions[tp] = last
                return FakeBatch(topic_partition=tp, first=first, next_offset=last, leader_epoch=0)
            if self.world.loop.time() >= until:
                return None
            await asyncio.sleep(0.1)

    async def wait(self, tp, *, max_wait_ms):
        until = self.world.loop.time() + max_wait_ms / 1_000
        while self.world.loop.time() < until and tp not in self.fails:
            if (
                self.positions[tp] < self.end(tp)
                and tp not in self.paused
                and not self.cluster.is_dead
            ):
                return
            await asyncio.sleep(0.1)

    async def close(self):
        self.positions.clear()


async def list_offsets(cluster, asked, isolation="read_uncommitted", *, timeout_ms=None):
    await cluster.coordinator_node(GROUP)
    world = cluster.world
    return {
        tp: Offset(0 if when == EARLIEST else world.topics[tp.topic][tp.partition])
        for tp, when in asked.items()
    }
