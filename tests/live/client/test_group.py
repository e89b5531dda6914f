"""`ConsumerGroup` over real sockets, against a Kohort server in this process."""

import asyncio
import os
import signal

import pytest

from kohort.client import (
    ClientConfig,
    CommitError,
    ConsumerGroup,
    DeadLetters,
    End,
    OffsetAndMetadata,
    Producer,
)
from kohort.client.produce.dead_letters import PREFIX
from kohort.errors import ErrorCode
from kohort.server.broker import Broker
from kohort.server.config.config import Config
from kohort.server.controller import NewPartitions
from kohort.types import TopicPartition
from live.client.app import App, produce
from server.topic_deletion import delete_topic
from waiting import until

ORDERS = [TopicPartition("orders", number) for number in range(4)]


class ObservedGroup(ConsumerGroup):
    """Keeps its run, so that a test can tell the membership of events."""

    def _make_run(self, cluster, fetcher):
        self.run = super()._make_run(cluster, fetcher)
        return self.run


@pytest.fixture
def orders(broker):
    broker.controller.topics.create("orders", 4)
    return broker


@pytest.mark.parametrize(
    "assignors", [["range"], ["cooperative-sticky"]], ids=["eager", "cooperative"]
)
async def test_members_share_the_work_and_hand_it_over_without_duplicates(orders, assignors):
    await produce(str(orders.address), 200)
    first = App(str(orders.address), assignors=assignors)
    await until(lambda: len(first.values()) == 200)
    second = App(str(orders.address), assignors=assignors)
    await until(lambda: len(first.assignment) == len(second.assignment) == 2)
    await produce(str(orders.address), 200)
    await until(lambda: len(first.values()) + len(second.values()) == 400)
    await first.stop()
    await until(lambda: len(second.assignment) == 4)
    await produce(str(orders.address), 100)
    await until(lambda: len(first.values()) + len(second.values()) == 500)
    await second.stop()
    assert sorted(first.values() + second.values()) == sorted(
        [*range(200), *range(200), *range(100)]
    )


async def test_a_new_member_goes_on_at_the_committed_offset(orders):
    await produce(str(orders.address), 50)
    first = App(str(orders.address))
    await until(lambda: len(first.values()) == 50)
    await first.stop()
    await produce(str(orders.address), 50)
    second = App(str(orders.address))
    await until(lambda: len(second.values()) == 50)
    await second.stop()
    assert {end for _, end in second.ends} == {End.CLOSED}


@pytest.mark.parametrize(("start", "count"), [("first", 20), ("last", 0), (1, 20), (2**52, 0)])
async def test_a_member_without_an_offset_begins_at_start_offset(orders, start, count):
    await produce(str(orders.address), 20)
    app = App(str(orders.address), start_offset=start)
    await until(lambda: len(app.assignment) == 4)
    await produce(str(orders.address), 10)
    await until(lambda: len(app.values()) == count + 10)
    await app.stop()


async def test_commits_carry_metadata_and_epochs_and_errors_by_partition(orders):
    async with ConsumerGroup("g", topics=["orders"], bootstrap=str(orders.address)) as group:
        generation = await group.next()
        async with generation:
            await generation.commit(
                {ORDERS[0]: OffsetAndMetadata(offset=3, leader_epoch=0, metadata="m")}
            )
            with pytest.raises(CommitError, match="orders-1: OFFSET_METADATA_TOO_LARGE"):
                await generation.commit(
                    {ORDERS[1]: OffsetAndMetadata(offset=3, metadata="x" * 5_000), ORDERS[2]: 4}
                )
            group.stop()
    async with ConsumerGroup("g", topics=["orders"], bootstrap=str(orders.address)) as group:
        generation = await group.next()
        assert generation.committed(ORDERS[0]) == OffsetAndMetadata(
            offset=3, leader_epoch=0, metadata="m"
        )
        assert generation.committed(ORDERS[1]) is None
        assert generation.start_offset(ORDERS[2]) == 4


async def test_the_topic_grows_is_deleted_and_made_anew(orders):
    app = App(str(orders.address))
    await until(lambda: len(app.assignment) == 4)
    await orders.controller.topics.create_partitions([NewPartitions("orders", 6)])
    await until(lambda: len(app.assignment) == 6)
    await produce(str(orders.address), 60)
    await until(lambda: len(app.values()) == 60)
    delete_topic(orders.controller, "orders")
    await until(lambda: app.generations[-1].assignment == ())
    orders.controller.topics.create("orders", 2)
    await until(lambda: len(app.assignment) == 2)
    await produce(str(orders.address), 10)
    await until(lambda: len(app.values()) == 70)
    await app.stop()


async def test_static_members_restart_without_a_rebalance(orders):
    app = App(str(orders.address), instance_id="i1")
    await until(lambda: len(app.assignment) == 4)
    await app.stop()
    again = App(str(orders.address), instance_id="i1")
    await until(lambda: len(again.assignment) == 4)
    assert again.generations[0].id == app.generations[0].id
    await again.stop()


async def test_topics_of_a_pattern_are_assigned_as_they_appear(broker):
    for name in ("orders-eu", "orders-us", "returns"):
        broker.controller.topics.create(name, 1)
    app = App(str(broker.address), topics=(), pattern="orders-.*")
    await until(lambda: len(app.assignment) == 2)
    broker.controller.topics.create("orders-asia", 1)
    await until(lambda: len(app.assignment) == 3)
    await app.stop()


async def test_a_member_goes_on_after_a_restart_of_the_server(tmp_path):
    settings = {
        "listeners": "127.0.0.1:0",
        "log.dir": str(tmp_path),
        "group.initial.rebalance.delay.ms": "0",
    }
    async with Broker(Config(settings)) as broker:
        broker.controller.topics.create("orders", 4)
        await produce(str(broker.address), 20)
        app = App(str(broker.address))
        await until(lambda: len(app.values()) == 20)
        address = str(broker.address)
    await asyncio.sleep(0.3)
    async with Broker(Config(settings | {"listeners": address})) as broker:
        await produce(str(broker.address), 20)
        await until(lambda: len(app.values()) == 40)
        assert len(app.generations) == 1
        await app.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_commits_and_leaves(orders, number):
    await produce(str(orders.address), 40)
    worked = []

    async def work(generation, partition):
        async for batch in generation.records(partition):
            worked.append(partition)
            if len(worked) == 4:
                os.kill(os.getpid(), number)
            await asyncio.sleep(0.2)
            await generation.commit({partition: batch.next_offset})

    async with ConsumerGroup("g", topics=["orders"], bootstrap=str(orders.address)) as group:
        await group.run_until_signal(work)
        assert group.statistics()["committed_partitions"] == 4
    next_one = App(str(orders.address))
    await until(lambda: len(next_one.assignment) == 4, seconds=30)  # well before a session timeout
    await next_one.stop()


async def test_a_signal_stops_all_groups_and_goes_on_to_the_handler_before(orders):
    told = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        mine = signal.getsignal(signal.SIGTERM)

        async def work(generation, partition):
            await generation.ending()

        async with (
            ConsumerGroup("g", topics=["orders"], bootstrap=str(orders.address)) as one,
            ConsumerGroup("h", topics=["orders"], bootstrap=str(orders.address)) as other,
        ):
            both = asyncio.gather(one.run_until_signal(work), other.run_until_signal(work))
            await until(lambda: one.generation_id > 0 and other.generation_id > 0)
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(60):
                await both
            assert told == [signal.SIGTERM]
            assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_groups_that_are_closed_leave_the_handlers_as_they_were(orders):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    one = ConsumerGroup("g", topics=["orders"], bootstrap=str(orders.address))
    other = ConsumerGroup("h", topics=["orders"], bootstrap=str(orders.address))
    async with one:
        async with other:
            one.stop_on()
            other.stop_on()
            await one.close()
            assert signal.getsignal(signal.SIGTERM) is not before[0]
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_dead_letters_tell_where_they_are_from(orders):
    orders.controller.topics.create("orders.dead", 1)
    await produce(str(orders.address), 20)
    config = ClientConfig(bootstrap=str(orders.address))
    async with (
        Producer(config, linger_ms=0) as producer,
        ConsumerGroup("g", topics=["orders"], bootstrap=str(orders.address)) as group,
    ):
        dead_letters = DeadLetters(producer, topic="orders.dead", group_id="g")
        done = []

        async def work(generation, partition):
            async for batch in generation.records(partition):
                for record in batch:
                    try:
                        if int(record.value) % 5 == 0:
                            raise ValueError(f"{record.value!r} is odd")
                    except ValueError as error:
                        await dead_letters.put(record, error)
                    done.append(record)
                await generation.commit({partition: batch.next_offset})
                if len(done) == 20:
                    group.stop()

        await group.run_until_signal(work)
    letters = []

    async def read(generation, partition):
        async for batch in generation.records(partition):
            letters.extend(batch)
            if len(letters) == 4:
                reader.stop()

    async with ConsumerGroup(
        "dead", topics=["orders.dead"], bootstrap=str(orders.address)
    ) as reader:
        await reader.run_until_signal(read)
    assert dead_letters.count == 4
    assert {record.value for record in letters} == {b"0", b"5", b"10", b"15"}
    for letter in letters:
        headers = {name.removeprefix(PREFIX): value.decode() for name, value in letter.headers}
        original = next(record for record in done if record.value == letter.value)
        assert (headers["topic"], headers["partition"]) == ("orders", str(original.partition))
        assert (headers["offset"], headers["group"]) == (str(original.offset), "g")
        assert headers["exception.class.name"] == "builtins.ValueError"
        assert "is odd" in headers["exception.message"]
        assert "Traceback" in headers["exception.stacktrace"]
        assert (letter.key, letter.timestamp) == (original.key, original.timestamp)


async def test_a_group_may_use_a_cluster_that_others_use_too(orders, cluster):
    async with ConsumerGroup("g", topics=["orders"], cluster=cluster) as group:
        assert len((await group.next()).assignment) == 4
    assert len((await cluster.metadata(["orders"])).topics["orders"].partitions) == 4


async def work(group, handed, each=None):
    """Go through the generations; `each` is started for each partition."""
    async for generation in group:
        handed.append(generation.assignment)
        async with generation:
            for tp in generation.assignment if each else ():
                generation.start(each, tp)


@pytest.mark.usefixtures("orders")
async def test_members_that_share_a_cluster_do_not_wait_behind_each_others_joins(cluster):
    first, second = [], []
    options = {"topics": ["orders"], "cluster": cluster, "heartbeat_interval_ms": 100}
    async with ConsumerGroup("g", **options) as one, ConsumerGroup("g", **options) as other:
        tasks = [asyncio.create_task(work(one, first)), asyncio.create_task(work(other, second))]
        await until(lambda: first and second and len(first[-1]) == len(second[-1]) == 2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("bound", [True, False])
async def test_a_task_that_lost_its_partition_cleans_up_undisturbed(cluster, bound):
    told = []

    async def slow(*_):
        try:
            await asyncio.sleep(60)
        finally:
            told.append("cleans up")
            await asyncio.sleep(0.1)
            told.append("is clean")

    async with ObservedGroup(
        "g", topics=["orders"], cluster=cluster, heartbeat_interval_ms=100
    ) as group:
        generation = await group.next()
        async with generation:
            generation.start(slow, *(ORDERS[:1] if bound else []))
            await asyncio.sleep(0.05)
            run = group.run
            run.member.dispatch(run.membership.fenced, generation.id, ErrorCode.unknown_member_id)
    assert told == ["cleans up", "is clean"]


@pytest.mark.usefixtures("orders")
async def test_partitions_lost_during_a_join_restart_after_their_worker_has_ended(cluster):
    told = []

    async def slow(generation, tp):
        told.append((tp.partition, "begins"))
        try:
            async for _ in generation.records(tp):
                pass
        finally:
            await asyncio.sleep(0.5)
            told.append((tp.partition, "ends"))

    options = {
        "topics": ["orders"],
        "assignors": ["cooperative-sticky"],
        "heartbeat_interval_ms": 100,
    }
    async with ObservedGroup("g", cluster=cluster, **options) as group:
        task = asyncio.create_task(work(group, [], slow))
        await until(lambda: len(told) == len(ORDERS))
        run = group.run
        run.member.dispatch(run.membership.rejoin, "the group rebalances")
        run.member.dispatch(run.membership.lose, tuple(ORDERS[:1]), "the topic was recreated")
        await until(lambda: [what for tp, what in told if tp == 0] == ["begins", "ends", "begins"])
        assert sorted(run.context.fetcher.assignment) == ORDERS
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
