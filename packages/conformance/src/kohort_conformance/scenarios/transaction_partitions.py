"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction covers, in every version and state."""

from __future__ import annotations

from typing import Any

from kohort_conformance.producers import NEW, PlayedProducer, described, newcomer, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

OF_CLIENTS = range(4)
BATCHED = (4, 5)
OFFSETS_VERSIONS = range(5)
NOBODY = 2**60
"""A producer id that no server gives."""


async def covered(a: PlayedProducer) -> None:
    """Record the state of the transaction and the topics that it covers.

    The partition of `__consumer_offsets` depends on the group's name.
    """
    told = await a.client.quiet("DescribeTransactions", 0, transactional_ids=[a.transactional_id])
    one = told["transaction_states"][0]
    topics = [
        [each["topic"], "one" if each["topic"].startswith("__") else sorted(each["partitions"])]
        for each in one["topics"]
    ]
    a.stage.note("covered", [one["transaction_state"], *sorted(topics)])


def of(a: PlayedProducer, topic: str, *partitions: int, **values: Any) -> dict[str, Any]:
    """One transaction of a batched AddPartitionsToTxn."""
    return {
        "transactional_id": a.transactional_id,
        "producer_id": a.id,
        "producer_epoch": a.epoch,
        "topics": [{"name": topic, "partitions": partitions or (0,)}],
        **values,
    }


@scenario
async def added_in_every_version(stage: Stage) -> None:
    """Partitions begin a transaction, further ones join it."""
    topic = await stage.create_topic(partitions=3)
    for version in OF_CLIENTS:
        a = await producer(stage, f"v{version}")
        await a.add(topic, 0, version=version)
        await covered(a)
        await a.add(topic, 2, 1, version=version)
        await covered(a)
        await a.end(False)


@scenario
async def added_again(stage: Stage) -> None:
    """A partition that is covered already, also twice in one request."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    await a.add(topic)
    await a.add(topic)
    await a.add(topic, 0, 1)
    await a.add(topic, 1, 1)
    await covered(a)
    await a.end(True)


@scenario
async def unknown_partitions(stage: Stage) -> None:
    """With one unknown partition nothing is added; the others were not attempted."""
    topic = await stage.create_topic(partitions=2)
    none = stage.topic_named("none")
    for version in OF_CLIENTS:
        a = await producer(stage, f"v{version}")
        await a.add(topic, 0, 1, 7, version=version)
        both = [{"name": topic, "partitions": [0]}, {"name": none, "partitions": [0]}]
        await a.add(topic, version=version, topics=both)
        await a.add(none, version=version)
        await a.add(topic, -1, version=version)
        await covered(a)


@scenario
async def nothing_added(stage: Stage) -> None:
    """No topics, and a topic without partitions."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for version in (0, 3):
        await a.add(topic, version=version, topics=[])
        await a.add(topic, version=version, topics=[{"name": topic, "partitions": []}])
    await covered(a)


@scenario
async def added_by_strangers(stage: Stage) -> None:
    """An unknown transactional id, another producer id, other epochs, the empty id."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.init()
    for version in OF_CLIENTS:
        await a.add(topic, version=version, transactional_id=f"none{stage.suffix}")
        await a.add(topic, version=version, producer_id=NOBODY)
        await a.add(topic, version=version, producer_epoch=0)
        await a.add(topic, version=version, producer_epoch=7)
        await a.add(topic, version=version, producer_epoch=-1)
        await a.add(topic, version=version, transactional_id="")
    await covered(a)


@scenario
async def strangers_with_unknown_partitions(stage: Stage) -> None:
    """Unknown partitions are told before the producer is looked at."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.add(topic, 0, 9, transactional_id=f"none{stage.suffix}")
    await a.add(topic, 0, 9, producer_epoch=7)


@scenario
async def internal_topics(stage: Stage) -> None:
    """The topics of the coordinators."""
    for topic in ("__consumer_offsets", "__transaction_state"):
        a = await producer(stage, topic)
        await a.add(topic, 0)
        await covered(a)
        if await described(a.client, a.transactional_id) == "Ongoing":
            await a.end(False)


@scenario
async def added_after_the_end(stage: Stage) -> None:
    """The next transaction of the old protocol has the same epoch, of the new one the next."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    for commit in (True, False):
        for version in (4, NEW):
            await a.open(topic, 0)
            await a.close(commit, version)
            await a.add(topic, 1)
            await covered(a)
            await a.end(True)
            await covered(a)


@scenario
async def added_with_the_epoch_before_the_end(stage: Stage) -> None:
    """The epoch that an end has bumped is fenced."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open_new(topic)
    await a.close(True, NEW)
    for version in OF_CLIENTS:
        await a.add(topic, version=version, producer_epoch=0)
    for version in OFFSETS_VERSIONS:
        await a.add_offsets(stage.group, version, producer_epoch=0)


@scenario
async def batched(stage: Stage) -> None:
    """From version 4 on a request is about several transactions."""
    topic = await stage.create_topic(partitions=2)
    for version in BATCHED:
        a = await producer(stage, f"a{version}")
        b = await producer(stage, f"b{version}")
        c = await newcomer(stage, f"c{version}")
        both = [of(a, topic, 0), of(b, topic, 0, 1)]
        await c.client.ask("AddPartitionsToTxn", version, transactions=both)
        await covered(a)
        await covered(b)
        await a.end(False)
        await b.end(False)


@scenario
async def batched_refusals(stage: Stage) -> None:
    """Each transaction of a batch has its own errors."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    b = await newcomer(stage, "b")
    for version in BATCHED:
        for refused in (
            of(b, topic, 0, 1),
            of(a, topic, producer_id=NOBODY),
            of(a, topic, producer_epoch=7),
            of(a, topic, 0, 9),
            of(a, topic, transactional_id=""),
        ):
            await b.client.ask("AddPartitionsToTxn", version, transactions=[refused])
    several = [of(b, topic, 0, 1), of(a, topic, 0)]
    await b.client.ask("AddPartitionsToTxn", 5, transactions=several)
    await a.end(False)


@scenario
async def verified(stage: Stage) -> None:
    """With verify_only the partitions that a transaction does not cover are told."""
    topic = await stage.create_topic(partitions=3)
    a = await producer(stage)
    b = await newcomer(stage, "b")

    async def verify(version: int, *partitions: int, **values: Any) -> None:
        asked = of(a, topic, *partitions, verify_only=True, **values)
        await b.client.ask("AddPartitionsToTxn", version, transactions=[asked])

    for version in BATCHED:
        await verify(version, 0, 1)
        await a.open(topic, 0, 1)
        await verify(version, 0)
        await verify(version, 1, 2)
        await verify(version, 0, 9)
        await verify(version, 0, producer_epoch=7)
        await verify(version, 0, producer_id=NOBODY)
        await a.close(True)
        await verify(version, 0)
        await a.init()
    await verify(5, 0, transactional_id=f"none{stage.suffix}")


@scenario
async def offsets_in_every_version(stage: Stage) -> None:
    """AddOffsetsToTxn adds the partition of `__consumer_offsets` that has the group."""
    for version in OFFSETS_VERSIONS:
        a = await producer(stage, f"v{version}")
        await a.add_offsets(stage.group, version)
        await covered(a)
        await a.add_offsets(stage.group, version)
        await a.end(True)
        await covered(a)


@scenario
async def offsets_of_strangers(stage: Stage) -> None:
    """An unknown transactional id, another producer id, other epochs, the empty id."""
    a = await producer(stage)
    await a.init()
    for version in OFFSETS_VERSIONS:
        await a.add_offsets(stage.group, version, transactional_id=f"none{stage.suffix}")
        await a.add_offsets(stage.group, version, producer_id=NOBODY)
        await a.add_offsets(stage.group, version, producer_epoch=0)
        await a.add_offsets(stage.group, version, producer_epoch=7)
        await a.add_offsets(stage.group, version, transactional_id="")
    await covered(a)


@scenario
async def offsets_of_the_empty_group(stage: Stage) -> None:
    """The group id is not looked at."""
    a = await producer(stage)
    await a.add_offsets("")
    await covered(a)
    await a.end(False)


@scenario
async def offsets_and_partitions(stage: Stage) -> None:
    """One transaction covers topics and a group."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.add_offsets(stage.group)
    await a.add(topic)
    await covered(a)
    await a.end(True)
