"""WriteTxnMarkers, and the producers of a partition (DescribeProducers) around markers."""

from __future__ import annotations

from typing import Any

from kohort_conformance.producers import NEW, OLD, PlayedProducer, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.isolation import ends, read
from kohort_conformance.scenarios.produce import fetched
from kohort_conformance.stage import Client, Stage

VERSIONS = (1, 2)


def marker(
    a: PlayedProducer, topic: str, *partitions: int, commit: bool = True, **values: Any
) -> dict[str, Any]:
    """A marker for partitions of one topic (0 when none are named)."""
    return {
        "producer_id": a.id,
        "producer_epoch": a.epoch,
        "transaction_result": commit,
        "topics": [{"name": topic, "partition_indexes": partitions or (0,)}],
        "coordinator_epoch": 0,
        **values,
    }


async def write(client: Client, *markers: dict[str, Any], version: int = 1) -> None:
    """WriteTxnMarkers, recorded by producer and partition: Kafka has them in hash maps."""
    told = await client.quiet("WriteTxnMarkers", version, markers=markers)
    for one in told["markers"]:
        for topic in one["topics"]:
            topic["partitions"].sort(key=lambda each: each["partition_index"])
    told["markers"].sort(key=lambda one: one["producer_id"])
    client.stage.note(f"{client.client_id}: WriteTxnMarkers v{version}", told)


async def producers(client: Client, topic: str, *partitions: int) -> None:
    """DescribeProducers, recorded."""
    asked = [{"name": topic, "partition_indexes": partitions or (0,)}]
    await client.ask("DescribeProducers", 0, topics=asked)


@scenario
async def end_of_a_transaction(stage: Stage) -> None:
    """A marker ends the transaction in its partition only."""
    topic = await stage.create_topic(partitions=2)
    for version in VERSIONS:
        for commit in (True, False):
            a = await producer(stage, f"v{version} {commit}")
            await a.open(topic, 0, 1)
            await write(a.client, marker(a, topic, commit=commit), version=version)
            await producers(a.client, topic, 0)
            await ends(a.client, topic)
            await a.end(commit)
    await fetched(await stage.client("z"), topic)


@scenario
async def without_a_transaction(stage: Stage) -> None:
    """A marker is written although no transaction is open, and for a producer without records."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for version in VERSIONS:
        await write(a.client, marker(a, topic), version=version)
    await a.open(topic)
    await a.close(False)
    await write(a.client, marker(a, topic))
    await read(a.client, topic)
    await producers(a.client, topic)


@scenario
async def epochs(stage: Stage) -> None:
    """An older epoch is fenced, a newer one taken."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.init()
    await a.open(topic)
    for version in VERSIONS:
        await write(a.client, marker(a, topic, producer_epoch=0), version=version)
    await producers(a.client, topic)
    await write(a.client, marker(a, topic, producer_epoch=5, commit=False))
    await producers(a.client, topic)
    await read(a.client, topic)


@scenario
async def epochs_of_the_new_protocol(stage: Stage) -> None:
    """By transaction version 2 the epoch has to be above the transaction's."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.init()
    await a.open_new(topic)
    for epoch in (0, 1, 2, 2, 1):
        one = marker(a, topic, producer_epoch=epoch, transaction_version=2)
        await write(a.client, one, version=2)
    await producers(a.client, topic)
    await read(a.client, topic)


@scenario
async def coordinator_epochs(stage: Stage) -> None:
    """A marker of an older coordinator is fenced, in that producer's partition."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    await a.open(topic, 0, 1)
    await write(a.client, marker(a, topic, coordinator_epoch=7))
    await a.open(topic, 0, sequence=1)
    for version in VERSIONS:
        await write(a.client, marker(a, topic, 0, 1, coordinator_epoch=6), version=version)
    await write(a.client, marker(a, topic, 0, coordinator_epoch=-1))
    await write(a.client, marker(a, topic, 0, coordinator_epoch=7))
    await read(a.client, topic)


@scenario
async def unknown_partitions(stage: Stage) -> None:
    """Unknown partitions are told one by one."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    none = stage.topic_named("none")
    for version in VERSIONS:
        await write(a.client, marker(a, none), version=version)
        await write(a.client, marker(a, topic, 9, 0, -1), version=version)


@scenario
async def several_markers(stage: Stage) -> None:
    """A request has markers of several producers; each has its own errors."""
    topic = await stage.create_topic(partitions=2)
    a, b = await producer(stage), await producer(stage, "b")
    await a.open(topic)
    await b.init()
    await b.open(topic, 0, 1)
    await write(a.client, marker(b, topic, 0, 1, commit=False), marker(a, topic))
    await write(a.client, marker(b, topic, producer_epoch=0), marker(a, topic))
    await read(a.client, topic)


@scenario
async def unknown_producer(stage: Stage) -> None:
    """A marker for a producer id that no server gave."""
    topic = await stage.create_topic()
    a = await stage.client()
    stranger = PlayedProducer(a, "", 2**60, 3)
    for version in VERSIONS:
        await write(a, marker(stranger, topic), version=version)
    await producers(a, topic)


@scenario
async def open_transaction(stage: Stage) -> None:
    """DescribeProducers tells where the open transaction began."""
    topic = await stage.create_topic(partitions=2)
    a, b = await producer(stage), await producer(stage, "b")
    await a.open(topic)
    await a.open(topic, sequence=1)
    await b.open_new(topic, 0, count=3)
    await producers(a.client, topic, 0, 1, 9)
    await a.close(True)
    await b.close(False, NEW)
    await producers(a.client, topic, 0, 1)


@scenario
async def ended_transactions(stage: Stage) -> None:
    """The last sequence stays by the old protocol, and is none after an end of the new one."""
    for version in (OLD, NEW):
        for commit in (True, False):
            topic = await stage.create_topic(f"v{version}-{commit}")
            a = await producer(stage, f"v{version} {commit}")
            await a.open(topic, count=2)
            await a.end(commit, version)
            await producers(a.client, topic)


@scenario
async def transaction_without_data(stage: Stage) -> None:
    """A marker without data makes the producer known to the partition."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.adding(topic).quiet()
    await producers(a.client, topic)
    await a.end(True)
    await producers(a.client, topic)
