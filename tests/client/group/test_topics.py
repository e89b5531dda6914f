"""What members do when topics change: kafka-go's partition watcher, and what it misses."""

import asyncio
from uuid import UUID

import pytest

from client.group.simulated import App, simulated, until
from kohort.client.cluster.metadata import Metadata, PartitionMetadata, TopicMetadata
from kohort.client.errors import TopicRecreatedError
from kohort.client.group.topic_watch import TopicWatch
from kohort.client.membership.events import End
from kohort.errors import ConfigError, ErrorCode
from kohort.types import TopicPartition

COOPERATIVE = {"assignors": ["cooperative-sticky"]}


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
@simulated()
async def test_a_topic_that_grows_is_assigned_anew_within_the_watch_interval(world, options):
    first, second = App(world, **options), App(world, **options)
    await until(lambda: len(first.assignment) == len(second.assignment) == 2)
    world.topics["orders"] += [0, 0]
    began = world.now
    await until(lambda: len(first.assignment) == len(second.assignment) == 3)
    assert world.now - began < 5_000 + 3_000 + 1_000 + (6_000 if options else 0)
    await asyncio.gather(first.stop(), second.stop())


@simulated()
async def test_only_the_leader_joins_again_for_that(world):
    first, second = App(world), App(world)
    await until(lambda: len(first.assignment) == len(second.assignment) == 2)
    leader, follower = (first, second) if first.generation.is_leader else (second, first)
    world.topics["orders"] += [0]
    await until(lambda: len(first.assignment) + len(second.assignment) == 5)
    assert leader.sent("join_group")[-1][1]["reason"] == "the partitions of orders changed"
    assert follower.sent("join_group")[-1][1]["reason"] == "the group rebalances"
    await asyncio.gather(first.stop(), second.stop())


@simulated(topics={"orders": 2})
async def test_a_topic_that_does_not_exist_yet_is_assigned_when_it_does(world):
    app = App(world, topics=["orders", "returns"])
    await app.assigned(2)
    world.create_topic("returns", 3)
    await app.assigned(5)
    await app.stop()


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
@simulated(topics={"orders": 2, "returns": 2})
async def test_a_deleted_topic_is_lost_and_the_other_goes_on(world, options):
    app = App(world, **options)
    await app.assigned(4)
    world.delete_topic("returns")
    await app.assigned(2)
    ends = {tp.topic: end for tp, end in app.ended}
    assert ends["returns"] is End.LOST
    assert ends.get("orders") == (None if options else End.REVOKED)
    await app.stop()


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
@simulated(topics={"orders": 2, "returns": 2})
async def test_a_topic_made_anew_is_another_one(world, options):
    """The number of partitions is the same: kafka-go goes on with the old offsets."""
    for topic in world.topics:
        world.produce(50, topic)
    app = App(world, **options)
    await until(lambda: sum(world.committed().values()) == 100)
    before = dict(world.committed())
    world.delete_topic("returns")
    world.create_topic("returns", 2)
    world.produce(10, "returns")
    await until(lambda: len(app.generations) > 1 and len(app.assignment) == 4)
    for tp in app.assignment:
        kept = 0 if options else before[tp]
        assert app.generation.start_offset(tp) == (0 if tp.topic == "returns" else kept)
    await until(
        lambda: sum(o for tp, o in world.committed().items() if tp.topic == "returns") == 10
    )
    await app.stop()


@simulated(topics={"orders": 2})
async def test_the_fetcher_may_notice_first(world):
    app = App(world, partition_watch_interval_ms=0, **COOPERATIVE)
    await app.assigned(2)
    gone = TopicPartition("orders", 0)
    app.group.fetcher.fails[gone] = TopicRecreatedError(gone)
    await until(lambda: app.ended)
    assert sorted(app.ended) == [(tp, End.LOST) for tp in ORDERS[:2]]
    await app.assigned(2)
    assert app.generation.added == tuple(ORDERS[:2])
    await app.stop()


@simulated(topics={"orders-eu": 1, "orders-us": 1, "returns": 1})
async def test_a_pattern_subscribes_to_what_matches_by_now(world):
    app = App(world, pattern="orders-.*")
    await app.assigned(2)
    world.create_topic("orders-asia", 2)
    await app.assigned(4)
    assert {tp.topic for tp in app.assignment} == {"orders-eu", "orders-us", "orders-asia"}
    world.delete_topic("orders-us")
    await app.assigned(3)
    await app.stop()


@simulated(topics={"orders": 1})
async def test_no_watch_no_change(world):
    app = App(world, partition_watch_interval_ms=0)
    await app.assigned(1)
    world.topics["orders"] += [0]
    await asyncio.sleep(60)
    assert len(app.assignment) == 1
    await app.stop()


@simulated(topics={"orders": 1})
async def test_a_cluster_that_does_not_answer_is_no_change(world):
    events = []
    app = App(world, on_event=events.append)
    await app.assigned(1)
    world.is_up = False
    await asyncio.sleep(15)
    world.is_up = True
    await asyncio.sleep(15)
    assert len(app.generations) == 1
    assert any(
        event.what == "topics" and "could not be checked" in event.detail for event in events
    )
    await app.stop()


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
@simulated(topics={"orders": 2, "returns": 4})
async def test_a_subscription_changes_at_run_time(world, options):
    app = App(world, topics=["orders"], **options)
    other = App(world, topics=["returns"], **options)
    await until(lambda: (len(app.assignment), len(other.assignment)) == (2, 4))
    app.group.subscribe(["orders", "returns"])
    await until(lambda: len(app.assignment) > 2 and len(app.assignment + other.assignment) == 6)
    assert set(app.generation.kept) == set(app.generations[0].assignment if options else ())
    app.group.subscribe(["returns"])
    await until(lambda: len(app.assignment) == len(other.assignment) == 2)
    assert {tp.topic for tp in (*app.assignment, *other.assignment)} == {"returns"}
    with pytest.raises(ConfigError, match="list of names"):
        app.group.subscribe("orders")
    await asyncio.gather(app.stop(), other.stop())


# --- what is compared ---


def metadata(**topics):
    return Metadata(
        topics={
            name: TopicMetadata(
                name=name,
                error=ErrorCode.none if count else ErrorCode.unknown_topic_or_partition,
                partitions=tuple(PartitionMetadata(index=at, leader=0) for at in range(count)),
            )
            for name, count in topics.items()
        }
    )


def test_a_topic_that_is_missing_once_is_a_broker_that_has_just_started():
    watch = TopicWatch(None)
    watch.remember(metadata(a=2), ["a"], ())
    owned = [TopicPartition("a", 0)]
    look = {"subscribed": ("a",), "owned": owned, "is_leader": True}
    first = watch.compare(metadata(a=0), **look)
    assert (first.rebalance, first.lost) == ("", ())
    assert watch.compare(metadata(a=2), **look).rebalance == ""
    watch.compare(metadata(a=0), **look)
    second = watch.compare(metadata(a=0), **look)
    assert (second.lost, second.lost_because) == (tuple(owned), "topic a was deleted")
    assert second.rebalance == "the partitions of a changed"


def test_a_pattern_matches_whole_names_and_no_internal_topics():
    watch = TopicWatch("a.*|__.*")
    of = metadata(a1=1, ab=1, ba=1, a0=0)
    internal = TopicMetadata(name="__consumer_offsets", is_internal=True)
    of = Metadata(topics={**of.topics, "__consumer_offsets": internal})
    assert watch.matched(of) == ("a1", "ab")


# --- partitions that come after the group, under start_offset="last"

PROTOCOLS = pytest.mark.parametrize(
    "options", [{}, COOPERATIVE, {"protocol": "consumer"}], ids=["eager", "cooperative", "consumer"]
)
ORDERS = [TopicPartition("orders", index) for index in range(4)]


def starts(app):
    return {tp: app.generation.start_offset(tp) for tp in app.assignment}


@PROTOCOLS
@simulated(topics={"orders": 1})
async def test_a_new_partition_is_read_from_its_first_record(world, options):
    world.produce(25)
    app = App(world, start_offset="last", **options)
    await app.assigned(1)
    world.topics["orders"] += [7]
    world._topics_view.changed()
    await app.assigned(2)
    assert starts(app) == {ORDERS[0]: 25, ORDERS[1]: 0}
    await until(lambda: world.committed().get(ORDERS[1]) == 7)
    await app.stop()


@pytest.mark.parametrize(
    "options",
    [
        {"pattern": "orders|returns"},
        {"pattern": "orders|returns"} | COOPERATIVE,
        {"topics": ["orders", "returns"]},
        {"topics": ["orders", "returns"], "protocol": "consumer"},
    ],
    ids=str,
)
@simulated(topics={"orders": 1})
async def test_a_new_topic_is_read_from_its_first_record(world, options):
    world.produce(25)
    app = App(world, start_offset="last", **options)
    await app.assigned(1)
    world.create_topic("returns", 1)
    world.topics["returns"] = [7]
    await app.assigned(2)
    assert starts(app) == {ORDERS[0]: 25, TopicPartition("returns", 0): 0}
    await app.stop()


@PROTOCOLS
@simulated(topics={"orders": 2})
async def test_members_that_begin_later_know_which_partitions_are_new(world, options):
    """Both of a rolling restart: nobody is left who saw the group begin."""
    first = App(world, start_offset="last", **options)
    await first.assigned(2)
    world.topics["orders"][0] = 3
    await until(lambda: world.committed() == {ORDERS[0]: 3})
    await first.stop()
    world.topics["orders"] = [3, 5, 7]
    world._topics_view.changed()
    second, third = (App(world, start_offset="last", **options) for _ in range(2))
    await until(lambda: len(second.assignment) + len(third.assignment) == 3)
    found = starts(second) | starts(third)
    assert found[ORDERS[2]] == 0, "it was created after the group"
    assert found[ORDERS[1]] == 5, "it is as old as the group, which committed nothing of it"
    assert found[ORDERS[0]] == 3
    await until(lambda: world.committed().get(ORDERS[2]) == 7)
    await asyncio.gather(second.stop(), third.stop())


@simulated(topics={"orders": 2})
async def test_a_group_that_commits_nothing_begins_each_time(world):
    async def only_read(generation, partition):
        async for _ in generation.records(partition):
            pass

    first = App(world, work=only_read, start_offset="last")
    await first.assigned(2)
    await first.stop()
    world.topics["orders"] = [3, 5, 7]
    second = App(world, work=only_read, start_offset="last")
    await second.assigned(3)
    assert list(starts(second).values()) == [3, 5, 7]
    await second.stop()


@pytest.mark.parametrize("seed", range(8))
def test_members_that_begin_at_once_all_start_at_the_last_record(seed):
    @simulated(seed, topics={"orders": 4})
    async def begin(world):
        world.produce(100)
        ends = dict(zip(ORDERS, world.topics["orders"], strict=True))
        apps = [App(world, start_offset="last") for _ in range(3)]
        await until(lambda: sum(len(app.assignment) for app in apps) == 4)
        assert {tp: at for app in apps for tp, at in starts(app).items()} == ends
        await asyncio.gather(*(app.stop() for app in apps))

    begin()


@simulated(topics={"orders": 1, "returns": 1})
async def test_a_topic_that_is_subscribed_later_is_not_new(world):
    world.topics["returns"] = [9]
    app = App(world, topics=["orders"], start_offset="last")
    await app.assigned(1)
    app.group.subscribe(["orders", "returns"])
    await app.assigned(2)
    assert starts(app)[TopicPartition("returns", 0)] == 9
    await app.stop()


@simulated(topics={"orders": 1})
async def test_a_recreated_topic_is_read_from_its_first_record(world):
    world.produce(5)
    app = App(world, start_offset="last")
    await app.assigned(1)
    world.delete_topic("orders")
    world.create_topic("orders", 1)
    world.topics["orders"] = [7]
    await until(lambda: len(app.generations) > 1 and len(app.assignment) == 1)
    assert starts(app) == {ORDERS[0]: 0}
    await app.stop()


def test_a_recreated_topic_is_told_until_it_is_not_held_any_more():
    """Its loss may be told while the member drains, which does not lose anything meanwhile."""

    def metadata(number):
        partitions = tuple(PartitionMetadata(index=each, leader=0) for each in range(2))
        topic = TopicMetadata(name="orders", id=UUID(int=number), partitions=partitions)
        return Metadata(topics={"orders": topic})

    def lost():
        changes = watch.compare(metadata(8), subscribed=("orders",), owned=held, is_leader=False)
        return changes.lost

    watch, held = TopicWatch(None), ORDERS[:2]
    watch.remember(metadata(7), ["orders"], ())
    for _ in range(2):
        assert lost() == tuple(held)
        watch.forget(["orders"])
    assert watch.ids == {"orders": UUID(int=7)}, "for commits of what was read"
    watch.remember(metadata(8), ["orders"], ())
    assert lost() == ()
