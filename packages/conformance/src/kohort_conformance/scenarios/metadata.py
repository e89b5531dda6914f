"""Metadata, DescribeCluster, DescribeTopicPartitions and ListPartitionReassignments."""

from __future__ import annotations

import uuid
from typing import Any

from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.topics import until_told
from kohort_conformance.stage import Client, Stage, topic_id

EVERY_VERSION = range(14)


async def ask(
    client: Client, version: int, topics: list[dict[str, Any]] | None, **values: Any
) -> None:
    """Metadata without making topics, recorded."""
    await client.ask(
        "Metadata", version, topics=topics, **{"allow_auto_topic_creation": False, **values}
    )


@scenario
async def one_topic(stage: Stage) -> None:
    """A topic by its name in every version."""
    name = await stage.create_topic(partitions=2)
    a = await stage.client()
    for version in EVERY_VERSION:
        await ask(a, version, [{"name": name}])


@scenario
async def no_topics(stage: Stage) -> None:
    """From version 1 on an empty list asks for no topic."""
    a = await stage.client()
    for version in EVERY_VERSION[1:]:
        await ask(a, version, [])


@scenario
async def all_topics(stage: Stage) -> None:
    """Null asks for all topics; version 0 does so by an empty list.

    Only the scenario's own are recorded.
    """
    await stage.create_topic("one")
    await stage.create_topic("two", partitions=2)
    a = await stage.client()
    for version in EVERY_VERSION:
        response = await a.quiet("Metadata", version, topics=None if version else [])
        own = sorted(
            (one for one in response["topics"] if one["name"] in stage.topics),
            key=lambda one: one["name"],
        )
        stage.note(f"Metadata v{version}", own)


@scenario
async def unknown_topic(stage: Stage) -> None:
    """Without auto-creation (version 4 on) a topic that does not exist is unknown, and stays so."""
    a = await stage.client()
    for version in EVERY_VERSION[4:]:
        await ask(a, version, [{"name": stage.topic_named("none")}])


@scenario
async def invalid_names(stage: Stage) -> None:
    """Names that no topic can have."""
    a = await stage.client()
    for name in ("", ".", "a b", "x" * 250):
        await ask(a, 9, [{"name": name}])
        await ask(a, 9, [{"name": name}], allow_auto_topic_creation=True)
        await ask(a, 1, [{"name": name}])


@scenario
async def auto_creation(stage: Stage) -> None:
    """A topic that does not exist is made when the request allows it.

    The first response does not have it yet.
    """
    a = await stage.client()
    for version in (1, 4, 9, 12):
        name = stage.topic_named(f"v{version}")
        await a.ask("Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=True)
        await until_told(a, name, 1)
        await ask(a, 9, [{"name": name}])


@scenario
async def several_topics(stage: Stage) -> None:
    """Known, unknown and doubled names in one request."""
    one, two = await stage.create_topic("one"), await stage.create_topic("two")
    a = await stage.client()
    names = [two, stage.topic_named("none"), one, two]
    response = await a.quiet(
        "Metadata", 9, topics=[{"name": name} for name in names], allow_auto_topic_creation=False
    )
    stage.note(
        "answers", sorted([topic["name"], topic["error_code"]] for topic in response["topics"])
    )


@scenario
async def by_id(stage: Stage) -> None:
    """Topics by id: from version 12 on."""
    name = await stage.create_topic()
    a = await stage.client()
    known = await topic_id(a, name)
    for version in (12, 13):
        await ask(a, version, [{"topic_id": known, "name": None}])


@scenario
async def by_id_too_early(stage: Stage) -> None:
    """Versions 10 and 11 have the field but do not serve it."""
    name = await stage.create_topic()
    a, b = await stage.client("a"), await stage.client("b")
    known = await topic_id(a, name)
    await ask(a, 10, [{"topic_id": known, "name": name}])
    await ask(b, 11, [{"topic_id": known, "name": name}])


@scenario
async def unknown_ids(stage: Stage) -> None:
    """Ids that nobody has."""
    name = await stage.create_topic()
    a = await stage.client()
    known = await topic_id(a, name)
    await ask(a, 12, [{"topic_id": uuid.UUID(int=7), "name": None}])
    await ask(a, 13, [{"topic_id": uuid.UUID(int=7), "name": None}])
    b = await stage.client("b")
    response = await b.quiet(
        "Metadata",
        12,
        topics=[{"topic_id": uuid.UUID(int=7), "name": None}, {"topic_id": known, "name": None}],
    )
    stage.note("codes", sorted(one["error_code"] for one in response["topics"]))


@scenario
async def name_and_id(stage: Stage) -> None:
    """Name and id at once."""
    name = await stage.create_topic()
    a = await stage.client("a")
    known = await topic_id(a, name)
    await ask(a, 12, [{"topic_id": known, "name": name}])


@scenario
async def authorized_operations(stage: Stage) -> None:
    """From version 8 on a topic's operations can be requested."""
    name = await stage.create_topic()
    a = await stage.client()
    for version in (8, 9, 10, 11, 13):
        await ask(a, version, [{"name": name}], include_topic_authorized_operations=True)
    await ask(a, 9, [{"name": stage.topic_named("none")}], include_topic_authorized_operations=True)


@scenario
async def internal_topic(stage: Stage) -> None:
    """`__consumer_offsets` is internal."""
    a = await stage.client()
    response = await a.quiet("Metadata", 9, topics=[{"name": "__consumer_offsets"}])
    topic = response["topics"][0]
    stage.note(
        "internal, partitions",
        [topic["error_code"], topic["is_internal"], len(topic["partitions"])],
    )


@scenario
async def cluster(stage: Stage) -> None:
    """DescribeCluster in every version, with and without operations."""
    a = await stage.client()
    for version in range(3):
        await a.ask("DescribeCluster", version, endpoint_type=1)
        await a.ask(
            "DescribeCluster", version, endpoint_type=1, include_cluster_authorized_operations=True
        )
    await a.ask("DescribeCluster", 2, include_fenced_brokers=True)


@scenario
async def cluster_of_another_kind(stage: Stage) -> None:
    """DescribeCluster v1 asked for controllers, or for an endpoint type that does not exist."""
    a = await stage.client()
    await a.ask("DescribeCluster", 1, endpoint_type=2)
    await a.ask("DescribeCluster", 1, endpoint_type=7)


async def describe(client: Client, *names: str, **values: Any) -> dict[str, Any]:
    """DescribeTopicPartitions, recorded."""
    return await client.ask(
        "DescribeTopicPartitions", 0, topics=[{"name": name} for name in names], **values
    )


@scenario
async def topic_partitions(stage: Stage) -> None:
    """DescribeTopicPartitions: known, unknown, doubled, in the order of names."""
    one, two = await stage.create_topic("one"), await stage.create_topic("two", partitions=2)
    a = await stage.client()
    await describe(a, two, one)
    await describe(a, stage.topic_named("none"))
    await describe(a, one, one, stage.topic_named("none"))


@scenario
async def topic_partitions_limited(stage: Stage) -> None:
    """A limit on partitions gives a cursor, with which the rest can be requested."""
    one, two = (
        await stage.create_topic("one", partitions=2),
        await stage.create_topic("two", partitions=3),
    )
    a = await stage.client()
    await describe(a, one, two, response_partition_limit=3)
    for cursor in (
        (two, 1),
        (one, 1),
        (two, 3),
        (two, 7),
        (stage.topic_named("m"), 0),
        (stage.topic_named("z"), 0),
    ):
        at = {"topic_name": cursor[0], "partition_index": cursor[1]}
        await describe(a, one, two, response_partition_limit=3, cursor=at)


@scenario
async def topic_partitions_odd_limits(stage: Stage) -> None:
    """Limits of 0 and less, and a cursor with a negative partition."""
    one = await stage.create_topic("one", partitions=2)
    a = await stage.client()
    await describe(a, one, response_partition_limit=0)
    await describe(a, one, response_partition_limit=-1)
    await describe(a, one, cursor={"topic_name": one, "partition_index": -1})


@scenario
async def reassignments(stage: Stage) -> None:
    """No partition is being reassigned."""
    one = await stage.create_topic()
    a = await stage.client()
    await a.ask("ListPartitionReassignments", 0, topics=None, timeout=5_000)
    await a.ask(
        "ListPartitionReassignments",
        0,
        topics=[{"name": one, "partition_indexes": [0]}],
        timeout=5_000,
    )
    nobody = [{"name": stage.topic_named("none"), "partition_indexes": [0]}]
    await a.ask("ListPartitionReassignments", 0, topics=nobody, timeout=5_000)
