"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords."""

from __future__ import annotations

import uuid
from typing import Any

from kohort_conformance.batches import RecordBatch, records
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage, topic_id

CONFIGS_COMPARED = frozenset(
    {
        "cleanup.policy",
        "retention.ms",
        "retention.bytes",
        "segment.bytes",
        "max.message.bytes",
        "compression.type",
    }
)


def new(name: str, partitions: int = 1, replication: int = 1, **values: Any) -> dict[str, Any]:
    """One topic of a CreateTopics."""
    return {"name": name, "num_partitions": partitions, "replication_factor": replication, **values}


def config(name: str, value: str | None) -> dict[str, Any]:
    return {"name": name, "value": value}


async def create(
    client: Client, *topics: dict[str, Any], version: int = 7, **values: Any
) -> dict[str, Any]:
    """CreateTopics, recorded with those configs that say something about every server."""
    response = await client.quiet(
        "CreateTopics", version, topics=topics, **{"timeout": 10_000, **values}
    )
    for topic in response["topics"]:
        if topic.get("configs"):
            topic["configs"] = sorted(
                (one for one in topic["configs"] if one["name"] in CONFIGS_COMPARED),
                key=lambda one: str(one["name"]),
            )
    client.stage.note(f"{client.client_id}: CreateTopics v{version}", response)
    return response


async def told(client: Client, *names: str) -> None:
    """What Metadata says of topics, recorded."""
    listed = [{"name": name} for name in names]
    await client.ask("Metadata", 9, topics=listed, allow_auto_topic_creation=False)


async def node_id(client: Client) -> int:
    """A broker's id, for assignments."""
    return int((await client.quiet("Metadata", 9, topics=[]))["brokers"][0]["node_id"])


async def until_told(client: Client, name: str, partitions: int) -> None:
    """Wait until Metadata tells so many partitions of a topic; 0 waits until it is gone."""

    async def so() -> bool:
        said = await client.quiet(
            "Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False
        )
        return len(said["topics"][0]["partitions"]) == partitions

    await client.stage.until(f"{name} has {partitions} partitions", so)


@scenario
async def create_in_every_version(stage: Stage) -> None:
    """Versions 5 and later tell the partitions, replication factor and configs; 7 the id."""
    a = await stage.client()
    for version in range(2, 8):
        await create(a, new(stage.topic_named(f"v{version}"), partitions=2), version=version)


@scenario
async def create_and_look(stage: Stage) -> None:
    """A new topic has the requested partitions."""
    a = await stage.client()
    name = stage.topic
    await create(a, new(name, partitions=3))
    await until_told(a, name, 3)
    await told(a, name)


@scenario
async def existing_topic(stage: Stage) -> None:
    """A name that is taken is refused in every version."""
    name = await stage.create_topic()
    a = await stage.client()
    for version in range(2, 8):
        await create(a, new(name), version=version)


@scenario
async def invalid_names(stage: Stage) -> None:
    """Empty, dots, foreign characters, too long: refused; 249 characters are not."""
    a = await stage.client()
    longest = (stage.topic_named("long") + "-" * 249)[:249]
    stage.topics.add(longest)
    for name in ("", ".", "..", "a b", "a/b", "\u00fc", "x" * 250, longest):
        response = await a.quiet("CreateTopics", 7, topics=[new(name)], timeout=10_000)
        topic = response["topics"][0]
        stage.note(f"{name[:10]!r} of {len(name)}", [topic["error_code"], topic["num_partitions"]])


@scenario
async def colliding_names(stage: Stage) -> None:
    """Names that differ only in dots and underscores collide."""
    a = await stage.client()
    one, other = stage.topic_named("a.b"), stage.topic_named("a_b")
    await create(a, new(one))
    await until_told(a, one, 1)
    await create(a, new(other))


@scenario
async def partition_counts(stage: Stage) -> None:
    """Zero and less than -1 partitions are refused; -1 means the default."""
    a = await stage.client()
    for count in (0, -2, -1):
        await create(a, new(stage.topic_named(f"of{count}"), partitions=count))
    await create(a, new(stage.topic_named("old"), partitions=-1), version=3)


@scenario
async def replication_factors(stage: Stage) -> None:
    """Zero, less than -1 and more than there are brokers are refused; -1 means the default."""
    a = await stage.client()
    for factor in (0, -2, 1_000, -1):
        await create(a, new(stage.topic_named(f"of{factor}"), replication=factor))


@scenario
async def manual_assignment(stage: Stage) -> None:
    """Partitions may be placed by hand, then the counts must be -1."""
    a = await stage.client()
    node = await node_id(a)

    def placed(*partitions: int, brokers: tuple[int, ...] = (node,)) -> list[dict[str, Any]]:
        return [{"partition_index": one, "broker_ids": brokers} for one in partitions]

    name = stage.topic
    await create(a, new(name, 1, 1, assignments=placed(0)))
    await create(a, new(name, -1, 1, assignments=placed(0)))
    await create(a, new(name, -1, -1, assignments=placed(0, 2)))
    await create(a, new(name, -1, -1, assignments=placed(0, 0)))
    await create(a, new(name, -1, -1, assignments=placed(0, brokers=())))
    await create(a, new(name, -1, -1, assignments=placed(0, brokers=(node, node))))
    await create(a, new(name, -1, -1, assignments=placed(0, brokers=(node + 1_000,))))
    await create(a, new(name, -1, -1, assignments=placed(0, 1)))


@scenario
async def configs(stage: Stage) -> None:
    """Configs are taken, told again, and refused when unknown, out of range or null."""
    a = await stage.client()
    await create(a, new(stage.topic_named("good"), configs=[config("retention.ms", "1000")]))
    await create(a, new(stage.topic_named("unknown"), configs=[config("no.such.config", "1")]))
    await create(a, new(stage.topic_named("value"), configs=[config("retention.ms", "soon")]))
    await create(a, new(stage.topic_named("range"), configs=[config("max.message.bytes", "-1")]))
    await create(a, new(stage.topic_named("choice"), configs=[config("cleanup.policy", "burn")]))
    await create(a, new(stage.topic_named("null"), configs=[config("retention.ms", None)]))
    twice = [config("retention.ms", "1000"), config("retention.ms", "2000")]
    await create(a, new(stage.topic_named("twice"), configs=twice))


@scenario
async def validate_only(stage: Stage) -> None:
    """A dry run tells what would be, and makes nothing."""
    name = await stage.create_topic("there")
    a = await stage.client()
    await create(a, new(stage.topic, 2), validate_only=True)
    await create(a, new(name), validate_only=True)
    await create(a, new(stage.topic, 0), validate_only=True)
    await told(a, stage.topic)


@scenario
async def same_name_twice(stage: Stage) -> None:
    """A name twice in one request is refused once; others are made."""
    a = await stage.client()
    response = await a.quiet(
        "CreateTopics",
        7,
        topics=[new(stage.topic), new(stage.topic_named("other")), new(stage.topic)],
        timeout=10_000,
    )
    stage.note("codes", sorted([one["name"], one["error_code"]] for one in response["topics"]))
    await create(a)


@scenario
async def delete_in_every_version(stage: Stage) -> None:
    """By name up to version 5, as an entry with a name in 6."""
    a = await stage.client()
    for version in range(1, 7):
        name = await stage.create_topic(f"v{version}")
        await a.ask(
            "DeleteTopics", version, topic_names=[name], topics=[{"name": name}], timeout=10_000
        )
        await until_told(a, name, 0)
        await told(a, name)


@scenario
async def delete_unknown(stage: Stage) -> None:
    """A name that nobody has is unknown in every version."""
    a = await stage.client()
    for version in range(1, 7):
        name = stage.topic_named("none")
        await a.ask(
            "DeleteTopics", version, topic_names=[name], topics=[{"name": name}], timeout=10_000
        )
    await a.ask("DeleteTopics", 5, topic_names=[], timeout=10_000)


@scenario
async def delete_by_id(stage: Stage) -> None:
    """Version 6 takes ids; an id that nobody has is an unknown id."""
    name = await stage.create_topic()
    a = await stage.client()
    known = await topic_id(a, name)
    await a.ask(
        "DeleteTopics", 6, topics=[{"name": None, "topic_id": uuid.UUID(int=7)}], timeout=10_000
    )
    await a.ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": known}], timeout=10_000)
    await until_told(a, name, 0)


@scenario
async def delete_oddly(stage: Stage) -> None:
    """Name and id at once, neither, and duplicates are refused."""
    name = await stage.create_topic()
    a = await stage.client()
    known = await topic_id(a, name)
    await a.ask("DeleteTopics", 6, topics=[{"name": name, "topic_id": known}], timeout=10_000)
    await a.ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": None}], timeout=10_000)
    response = await a.quiet(
        "DeleteTopics", 6, topics=[{"name": name}, {"name": name}], timeout=10_000
    )
    stage.note("codes", [one["error_code"] for one in response["responses"]])
    await told(a, name)


@scenario
async def more_partitions(stage: Stage) -> None:
    """The count can only grow; the new partitions can be used."""
    name = await stage.create_topic(partitions=2)
    a = await stage.client()
    for count in (2, 1, 0, -1, 4):
        await a.ask(
            "CreatePartitions",
            3,
            topics=[{"name": name, "count": count, "assignments": None}],
            timeout=10_000,
        )
    await until_told(a, name, 4)
    await told(a, name)


@scenario
async def more_partitions_in_every_version(stage: Stage) -> None:
    """One more in each version; a topic that does not exist is unknown."""
    name, none = await stage.create_topic(), stage.topic_named("none")
    a = await stage.client()
    for version in range(4):
        grown = {"name": name, "count": version + 2, "assignments": None}
        await a.ask("CreatePartitions", version, topics=[grown], timeout=10_000)
        await until_told(a, name, version + 2)
        unknown = {"name": none, "count": 2, "assignments": None}
        await a.ask("CreatePartitions", version, topics=[unknown], timeout=10_000)


@scenario
async def more_partitions_oddly(stage: Stage) -> None:
    """Dry run, duplicates and assignments."""
    name = await stage.create_topic()
    a = await stage.client()
    node = await node_id(a)
    one = {"name": name, "count": 3, "assignments": None}
    await a.ask("CreatePartitions", 3, topics=[one], timeout=10_000, validate_only=True)
    await a.ask("CreatePartitions", 3, topics=[one, one], timeout=10_000)
    await told(a, name)
    for brokers in (
        [[node]],
        [[node], [node], [node]],
        [[node + 1_000], [node]],
        [[], [node]],
        [[node], [node]],
    ):
        placed = [{"broker_ids": ids} for ids in brokers]
        await a.ask("CreatePartitions", 3, topics=[{**one, "assignments": placed}], timeout=10_000)
    await until_told(a, name, 3)


async def filled(stage: Stage) -> tuple[Client, str]:
    """A topic with ten records in its only partition."""
    name = await stage.create_topic()
    a = await stage.client()
    for _ in range(2):
        batch = RecordBatch(records(*[b"%d" % n for n in range(5)])).encode()
        data = [{"name": name, "partition_data": [{"index": 0, "records": batch}]}]
        await a.quiet("Produce", 9, acks=-1, timeout=5_000, topic_data=data)
    return a, name


async def trim(
    client: Client, name: str, offset: int, partition: int = 0, version: int = 2
) -> None:
    """DeleteRecords of one partition, recorded."""
    topics = [{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}]
    await client.ask("DeleteRecords", version, topics=topics, timeout=5_000)


@scenario
async def delete_records(stage: Stage) -> None:
    """The log start moves up to the requested offset, never down; -1 means the end."""
    a, name = await filled(stage)
    for version, offset in ((0, 2), (1, 5), (2, 3), (2, 0), (2, 10), (2, -1)):
        await trim(a, name, offset, version=version)


@scenario
async def delete_records_to_the_end(stage: Stage) -> None:
    """-1 deletes all there is."""
    a, name = await filled(stage)
    await trim(a, name, -1)
    await trim(a, name, -1)


@scenario
async def delete_records_out_of_range(stage: Stage) -> None:
    """Beyond the end, or below -1: out of range."""
    a, name = await filled(stage)
    await trim(a, name, 11)
    await trim(a, name, -2)
    await trim(a, name, 4)


@scenario
async def delete_records_of_unknown(stage: Stage) -> None:
    """Topics and partitions that do not exist."""
    a, name = await filled(stage)
    await trim(a, stage.topic_named("none"), 0)
    await trim(a, name, 0, partition=5)
    await trim(a, name, 0, partition=-1)
    await a.ask("DeleteRecords", 2, topics=[], timeout=5_000)


@scenario
async def delete_records_of_a_compacted_topic(stage: Stage) -> None:
    """Of a topic that is only compacted nothing can be deleted."""
    name = await stage.create_topic(cleanup_policy="compact")
    await trim(await stage.client(), name, 0)
