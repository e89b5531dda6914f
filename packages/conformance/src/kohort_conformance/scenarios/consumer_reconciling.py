"""Members of a consumer group on the way to their target: responses, states and records."""

from __future__ import annotations

from kohort_conformance.consumers import (
    consumer,
    joined,
    known_topic,
    name_topics,
    named_topic,
    named_topics,
    owned,
    settle,
    settled,
    show,
)
from kohort_conformance.group_log import GroupLog
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def step_by_step(stage: Stage) -> None:
    """Two members of a topic of two partitions, from the first to the last heartbeat."""
    topic = await known_topic(stage, partitions=2)
    [topic_id] = await name_topics(stage, topic)
    log = await GroupLog.of(stage)
    a, b = await consumer(stage, "a", topic), await consumer(stage, "b", topic)
    await a.join()
    await log.record("a joined")
    await b.join()
    await log.record("b joined")
    await show(a.client, stage.group)
    await b.beat()
    await log.record("b waits")
    await b.beat()
    await log.record("b waits on")
    await a.beat()
    await log.record("a is to revoke")
    await show(a.client, stage.group)
    await a.beat()
    await log.record("a has not said so")
    await a.beat(topic_partitions=owned({topic_id: [0, 1]}))
    await log.record("a still has both")
    await a.beat(topic_partitions=owned({topic_id: [0]}))
    await log.record("a has revoked")
    await b.beat()
    await log.record("b has its partition")
    await show(a.client, stage.group)
    await b.ack()
    await a.beat()
    await log.record("nothing more")


@scenario
async def first_member(stage: Stage) -> None:
    """The records of a first member that says all that can be said."""
    topic = await named_topic(stage, partitions=3)
    log = await GroupLog.of(stage)
    a = await consumer(stage, "a", topic, instance="i", assignor="range", rebalance_ms=1_234)
    await a.join(rack_id="r")
    await log.record("joined")
    await show(a.client, stage.group)


@scenario
async def join_without_topics(stage: Stage) -> None:
    """A first member that subscribes to nothing leaves the group at epoch 1."""
    log = await GroupLog.of(stage)
    a = await consumer(stage, "a")
    await a.join(subscribed_topic_names=[])
    await log.record("joined")
    await show(a.client, stage.group)
    await a.beat()
    b = await consumer(stage, "b")
    await b.join(subscribed_topic_names=[])
    await log.record("another joined")
    await a.beat(subscribed_topic_names=["x"])
    await log.record("a subscribes")


@scenario
async def join_for_a_topic_that_is_not_there(stage: Stage) -> None:
    """A subscription to a topic that does not exist bumps the epoch and brings no partitions."""
    log = await GroupLog.of(stage)
    a = await consumer(stage, "a", stage.topic)
    await a.join()
    await log.record("joined")
    await show(a.client, stage.group)


@scenario
async def when_the_assignment_is_told(stage: Stage) -> None:
    """Only to who joins, who says everything, or whom it changes for; a keep-alive gets null."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    await a.beat()
    await a.beat(subscribed_topic_names=[topic])
    await a.beat(subscribed_topic_names=[topic], rebalance_timeout=60_000)
    await a.beat(topic_partitions=[], rebalance_timeout=60_000)
    await a.beat(subscribed_topic_names=[topic], topic_partitions=[])
    await a.beat(subscribed_topic_names=[topic], topic_partitions=[], rebalance_timeout=60_000)
    await a.beat(subscribed_topic_regex="", topic_partitions=[], rebalance_timeout=60_000)
    await a.beat(subscribed_topic_names=[topic], topic_partitions=[], rebalance_timeout=0)
    await a.join()
    await a.beat(version=0)
    await a.beat(
        subscribed_topic_names=[topic], topic_partitions=[], rebalance_timeout=60_000, version=0
    )


@scenario
async def partitions_are_not_looked_at_when_stable(stage: Stage) -> None:
    """A Stable member may say that it has partitions of others, or none."""
    topic = await known_topic(stage, partitions=4)
    [topic_id] = await name_topics(stage, topic)
    a, b = await settled(stage, topic, "a", "b")
    log = await GroupLog.of(stage)
    await a.beat(topic_partitions=owned({topic_id: range(4)}))
    await b.beat(topic_partitions=[])
    await b.beat()
    await log.record("nothing")
    await show(a.client, stage.group)


@scenario
async def new_target_while_revoking(stage: Stage) -> None:
    """A member that is to revoke goes from there to the latest target at once."""
    topic = await known_topic(stage, partitions=6)
    [topic_id] = await name_topics(stage, topic)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    b = await joined(await consumer(stage, "b", topic))
    await a.beat()
    await log.record("a is to revoke three")
    c = await joined(await consumer(stage, "c", topic))
    await a.beat()
    await log.record("a is still revoking three")
    await show(a.client, stage.group)
    await a.ack()
    await log.record("a has revoked")
    await a.ack()
    await b.beat()
    await c.beat()
    await log.record("all of them")
    await a.beat(topic_partitions=owned({topic_id: a.assigned[topic_id]}))
    await show(a.client, stage.group)


@scenario
async def revokes_in_one_request(stage: Stage) -> None:
    """A member that does not have what it would lose advances without revoking."""
    topic = await known_topic(stage, partitions=2)
    [topic_id] = await name_topics(stage, topic)
    a = await settled(stage, topic, "a")
    await joined(await consumer(stage, "b", topic))
    log = await GroupLog.of(stage)
    await a.beat(topic_partitions=owned({topic_id: [0]}))
    await log.record("a advanced")
    await show(a.client, stage.group)


@scenario
async def target_goes_back_while_revoking(stage: Stage) -> None:
    """When the newcomer leaves, a member that is revoking gets its partitions back."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    b = await joined(await consumer(stage, "b", topic))
    await a.beat()
    await b.leave()
    await a.beat()
    await show(a.client, stage.group)
    await a.ack()
    await show(a.client, stage.group)


@scenario
async def unreleased_member_advances(stage: Stage) -> None:
    """A member that waits for a partition takes each new target."""
    topic = await named_topic(stage, partitions=4)
    await settled(stage, topic, "a")
    b = await joined(await consumer(stage, "b", topic))
    log = await GroupLog.of(stage)
    await b.beat()
    await joined(await consumer(stage, "c", topic))
    await b.beat()
    await log.record("b waits at the new epoch")
    await show(b.client, stage.group)


@scenario
async def partition_by_partition(stage: Stage) -> None:
    """A member that waits for two gets the one that is released first."""
    topic = await known_topic(stage, partitions=6)
    [topic_id] = await name_topics(stage, topic)
    a, b = await settled(stage, topic, "a", "b")
    c = await joined(await consumer(stage, "c", topic))
    await a.beat()
    await a.ack()
    await c.beat()
    await show(a.client, stage.group)
    await b.beat()
    await b.ack()
    log = await GroupLog.of(stage)
    await c.beat(topic_partitions=owned({topic_id: c.assigned[topic_id]}))
    await log.record("c has both")
    await c.beat()
    await show(a.client, stage.group)


@scenario
async def joins_again_with_nothing(stage: Stage) -> None:
    """A live member that joins again gets what it had."""
    topic = await named_topic(stage, partitions=4)
    a, b = await settled(stage, topic, "a", "b")
    log = await GroupLog.of(stage)
    await a.join()
    await log.record("nothing")
    await b.join()
    await show(a.client, stage.group)


@scenario
async def joins_again_while_revoking(stage: Stage) -> None:
    """A member that joins again without partitions has revoked them."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    b = await joined(await consumer(stage, "b", topic))
    await a.beat()
    log = await GroupLog.of(stage)
    await a.join()
    await log.record("a joined again")
    await b.beat()
    await show(a.client, stage.group)


@scenario
async def joins_again_while_waiting(stage: Stage) -> None:
    """A member that joins again while it waits goes on waiting."""
    topic = await named_topic(stage, partitions=4)
    await settled(stage, topic, "a")
    b = await joined(await consumer(stage, "b", topic))
    await b.beat()
    log = await GroupLog.of(stage)
    await b.join()
    await log.record("nothing")
    await show(b.client, stage.group)


@scenario
async def other_topics(stage: Stage) -> None:
    """A changed subscription takes partitions away at once and gives the new ones."""
    first, second = await named_topics(stage, "first", "second", partitions=2)
    a = await settled(stage, first, "a")
    log = await GroupLog.of(stage)
    await a.beat(subscribed_topic_names=[second])
    await log.record("a subscribes the second")
    await show(a.client, stage.group)
    await a.ack()
    await log.record("a says what it has")
    await a.beat(subscribed_topic_names=[second], topic_partitions=[])
    await log.record("again")
    await show(a.client, stage.group)


@scenario
async def one_topic_more(stage: Stage) -> None:
    """A topic more is given at once, with what was there before."""
    first, second = await named_topics(stage, "first", "second", partitions=2)
    a = await settled(stage, first, "a")
    log = await GroupLog.of(stage)
    await a.beat(subscribed_topic_names=[second, first, first])
    await log.record("a subscribes both")
    await a.beat(subscribed_topic_names=[first, second])
    await log.record("the same set")
    await show(a.client, stage.group)


@scenario
async def no_topics_any_more(stage: Stage) -> None:
    """An empty subscription takes all partitions away, and brings no null."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    await a.beat(subscribed_topic_names=[])
    await log.record("a subscribes nothing")
    await show(a.client, stage.group)
    await a.beat(topic_partitions=[])
    await log.record("a has nothing")
    await show(a.client, stage.group)


@scenario
async def sheds_while_revoking(stage: Stage) -> None:
    """While it revokes, a member loses the topics that it does not subscribe any more, too."""
    first, second = await named_topics(stage, "first", "second", partitions=2)
    a = await consumer(stage, "a", first, second)
    await joined(a)
    await settle([a])
    await joined(await consumer(stage, "b", first))
    await a.beat()
    await show(a.client, stage.group)
    log = await GroupLog.of(stage)
    await a.beat(subscribed_topic_names=[first])
    await log.record("a drops the second")
    await show(a.client, stage.group)
    await a.ack()
    await log.record("a has revoked")
    await show(a.client, stage.group)


@scenario
async def sheds_within_the_interval(stage: Stage) -> None:
    """Partitions of unsubscribed topics go before there is a new target."""
    first, second = await named_topics(stage, "first", "second", partitions=2)
    a = await consumer(stage, "a", first, second)
    await stage.set_group(stage.group, **{"consumer.assignment.interval.ms": "15000"})
    await joined(a)
    await settle([a])
    log = await GroupLog.of(stage)
    await a.beat(subscribed_topic_names=[second])
    await log.record("a drops the first")
    await show(a.client, stage.group)
    await a.beat(topic_partitions=[])
    await log.record("a has revoked")
    await show(a.client, stage.group)


@scenario
async def within_the_interval(stage: Stage) -> None:
    """Within the assignment interval a newcomer waits for the next target with nothing."""
    topic = await named_topic(stage, partitions=2)
    await stage.set_group(stage.group, **{"consumer.assignment.interval.ms": "15000"})
    log = await GroupLog.of(stage)
    a = await joined(await consumer(stage, "a", topic))
    await log.record("a joined")
    b = await consumer(stage, "b", topic)
    await b.join()
    await log.record("b joined")
    await show(a.client, stage.group)
    await b.beat()
    await a.beat()
    await log.record("nothing")
    await stage.set_group(stage.group, **{"consumer.assignment.interval.ms": "0"})
    await a.beat()
    await log.record("a makes the target")
    await show(a.client, stage.group)


@scenario
async def leaves_within_the_interval(stage: Stage) -> None:
    """Partitions of a member that left stay without owner until the next target."""
    topic = await named_topic(stage, partitions=2)
    a, b = await settled(stage, topic, "a", "b")
    await stage.set_group(stage.group, **{"consumer.assignment.interval.ms": "15000"})
    await b.leave()
    await a.beat()
    await show(a.client, stage.group)
    await stage.set_group(stage.group, **{"consumer.assignment.interval.ms": "0"})
    await a.beat()
    await show(a.client, stage.group)


@scenario
async def fields_that_bump_nothing(stage: Stage) -> None:
    """A rack, a timeout and a client id are stored without a new epoch, unlike an assignor."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    await a.beat(rack_id="r")
    await log.record("rack")
    await a.beat(rebalance_timeout=7_000)
    await log.record("timeout")
    await a.beat(server_assignor="range")
    await log.record("assignor")
    a.client = await stage.client("another client id")
    await a.beat()
    await log.record("client id")
    await a.beat(rack_id="r", rebalance_timeout=7_000, server_assignor="range")
    await log.record("the same again")
    await show(a.client, stage.group)


@scenario
async def assignors_that_bump_nothing(stage: Stage) -> None:
    """The epoch is bumped only if the assignor that the group uses changes."""
    topic = await named_topic(stage, partitions=2)
    a, b, c = await settled(stage, topic, "a", "b", "c")
    log = await GroupLog.of(stage)
    await a.beat(server_assignor="uniform")
    await log.record("the first of the server's")
    await b.beat(server_assignor="uniform")
    await log.record("as a")
    await c.beat(server_assignor="range")
    await log.record("fewer than name uniform")
    await b.beat(server_assignor="range")
    await log.record("most name range")
    await show(a.client, stage.group)


@scenario
async def adopts_an_instance_id(stage: Stage) -> None:
    """A dynamic member can take a free instance id when it joins again, and need not repeat it."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    await a.join(instance_id="i")
    await log.record("adopted")
    await a.beat()
    await a.beat(instance_id="i")
    await a.beat(instance_id="j")
    await show(a.client, stage.group)
    await a.leave()
    await log.record("left")
