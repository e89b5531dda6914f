"""Requests of administrators: log directories, quorum, replicas, producers, quotas, features."""

from __future__ import annotations

from typing import Any

from kohort_conformance.batches import RecordBatch, records
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.idempotence import new_producer, numbered
from kohort_conformance.scenarios.produce import produce
from kohort_conformance.stage import Client, Stage

METADATA = "__cluster_metadata"
PREFERRED, UNCLEAN = 0, 1
TIMEOUT = 10_000


async def describe_log_dirs(client: Client, topics: Any, version: int = 4) -> None:
    """DescribeLogDirs, recorded without the directory and the bytes of its volume."""
    response = await client.quiet("DescribeLogDirs", version, topics=topics)
    for directory in response["results"]:
        directory["log_dir"] = bool(directory["log_dir"])
        for name in ("total_bytes", "usable_bytes"):
            if name in directory:
                directory[name] = isinstance(directory[name], int)
        directory["topics"].sort(key=lambda topic: topic["name"])
        for topic in directory["topics"]:
            topic["partitions"].sort(key=lambda partition: partition["partition_index"])
    client.stage.note(f"{client.client_id}: DescribeLogDirs v{version}", response)


@scenario
async def log_dirs(stage: Stage) -> None:
    """Sizes of partitions in every version; those that do not exist are left out."""
    topic = await stage.create_topic(partitions=2)
    a = await stage.client()
    await produce(a, topic, RecordBatch(records(b"one", b"two")).encode())
    asked = [
        {"topic": topic, "partitions": [0, 1, 9]},
        {"topic": stage.topic_named("none"), "partitions": [0]},
    ]
    for version in range(1, 6):
        await describe_log_dirs(a, asked, version)


@scenario
async def log_dirs_of_few(stage: Stage) -> None:
    """No topics, a topic without partitions, partitions that are named again."""
    topic = await stage.create_topic()
    a = await stage.client()
    await describe_log_dirs(a, [])
    await describe_log_dirs(a, [{"topic": topic, "partitions": []}])
    named = {"topic": topic, "partitions": [0, 0]}
    await describe_log_dirs(a, [named, named])


@scenario
async def log_dirs_of_all(stage: Stage) -> None:
    """Null asks for every partition."""
    topic = await stage.create_topic(partitions=3)
    a = await stage.client()
    response = await a.quiet("DescribeLogDirs", 4, topics=None)
    found = [one for each in response["results"] for one in each["topics"] if one["name"] == topic]
    indexes = sorted(one["partition_index"] for each in found for one in each["partitions"])
    stage.note("partitions", indexes)


async def describe_quorum(client: Client, name: str, index: int, version: int = 2) -> None:
    """DescribeQuorum of one partition, recorded without offsets and listeners."""
    asked = [{"topic_name": name, "partitions": [{"partition_index": index}]}]
    response = await client.quiet("DescribeQuorum", version, topics=asked)
    for partition in response["topics"][0]["partitions"]:
        end = partition.pop("high_watermark")
        partition["leader_epoch"] = partition["leader_epoch"] > 0
        for voter in partition["current_voters"]:
            voter["log_end_offset"] = voter["log_end_offset"] >= end > 0
            for name in ("last_fetch_timestamp", "last_caught_up_timestamp"):
                if name in voter:
                    voter[name] = voter[name] > 0
    for node in response.get("nodes", ()):
        node["listeners"] = [one["name"] for one in node["listeners"]]
    client.stage.note(f"{client.client_id}: DescribeQuorum v{version}", response)


@scenario
async def quorum(stage: Stage) -> None:
    """The cluster's metadata has one voter, which leads."""
    a = await stage.client()
    for version in range(3):
        await describe_quorum(a, METADATA, 0, version)


@scenario
async def quorum_of_others(stage: Stage) -> None:
    """Other partitions have no quorum."""
    topic = await stage.create_topic()
    a = await stage.client()
    await describe_quorum(a, topic, 0)
    await describe_quorum(a, METADATA, 1)
    await a.ask("DescribeQuorum", 2, topics=[])
    both = [{"partition_index": 0}, {"partition_index": 0}]
    await a.ask("DescribeQuorum", 2, topics=[{"topic_name": METADATA, "partitions": both}])
    await a.ask("DescribeQuorum", 0, topics=[{"topic_name": METADATA, "partitions": []}])


async def elect(client: Client, asked: Any, version: int = 2, kind: int = PREFERRED) -> None:
    await client.ask(
        "ElectLeaders", version, election_type=kind, topic_partitions=asked, timeout=TIMEOUT
    )


@scenario
async def elections(stage: Stage) -> None:
    """No partition of one node needs an election; unknown ones are told."""
    topic = await stage.create_topic(partitions=2)
    a = await stage.client()
    asked = [
        {"topic": topic, "partitions": [0, 1, 9]},
        {"topic": stage.topic_named("none"), "partitions": [0]},
    ]
    for version in range(3):
        await elect(a, asked, version)
    await elect(a, asked, kind=UNCLEAN)


@scenario
async def odd_elections(stage: Stage) -> None:
    """Nothing to elect, elections named again, a type that does not exist."""
    topic = await stage.create_topic()
    a = await stage.client()
    await elect(a, [])
    await elect(a, [{"topic": topic, "partitions": []}])
    await elect(a, [{"topic": topic, "partitions": [0, 0]}, {"topic": topic, "partitions": [0]}])
    await elect(a, [{"topic": topic, "partitions": [0]}], kind=5)


@scenario
async def election_of_all(stage: Stage) -> None:
    """Null asks for every partition; topics are named without the partitions that need none."""
    topic = await stage.create_topic()
    a = await stage.client()
    response = await a.quiet(
        "ElectLeaders", 2, election_type=PREFERRED, topic_partitions=None, timeout=TIMEOUT
    )
    results = response.pop("replica_election_results")
    stage.note("response", response)
    stage.note("topic", [one for one in results if one["topic"] == topic])


async def node_of(client: Client) -> int:
    """The id of the server."""
    response = await client.quiet("Metadata", 9, topics=[])
    return int(response["brokers"][0]["node_id"])


async def reassign(
    client: Client,
    name: str,
    *partitions: tuple[int, list[int] | None],
    version: int = 1,
    **values: Any,
) -> None:
    listed = [{"partition_index": index, "replicas": replicas} for index, replicas in partitions]
    await client.ask(
        "AlterPartitionReassignments",
        version,
        timeout=TIMEOUT,
        topics=[{"name": name, "partitions": listed}],
        **values,
    )


@scenario
async def reassignments(stage: Stage) -> None:
    """Replicas can stay where they are; there is nothing to cancel."""
    topic = await stage.create_topic(partitions=2)
    a = await stage.client()
    node = await node_of(a)
    await reassign(a, topic, (0, [node]), (1, None), (9, [node]), (9, None), version=0)
    await reassign(a, topic, (0, [node]), allow_replication_factor_change=False)
    await reassign(a, topic, (0, [node]), (0, None), allow_replication_factor_change=True)
    await reassign(a, stage.topic_named("none"), (0, [node]), (1, None))
    await a.ask("AlterPartitionReassignments", 0, timeout=TIMEOUT, topics=[])


@scenario
async def refused_reassignments(stage: Stage) -> None:
    """Lists of replicas that cannot be."""
    topic = await stage.create_topic()
    a = await stage.client()
    node = await node_of(a)
    for replicas in ([], [node, node], [node + 7], [-1], [node, node + 7]):
        await reassign(a, topic, (0, replicas))


@scenario
async def reassignments_in_progress(stage: Stage) -> None:
    """None of all, of some, of none."""
    topic = await stage.create_topic()
    a = await stage.client()
    for topics in (None, [], [{"name": topic, "partition_indexes": [0, 9]}]):
        await a.ask("ListPartitionReassignments", 0, timeout=TIMEOUT, topics=topics)


@scenario
async def producers(stage: Stage) -> None:
    """The last sequence and timestamp of each idempotent producer."""
    topic = await stage.create_topic(partitions=2)
    a = await stage.client()
    producer = await new_producer(a)
    await produce(a, topic, numbered(producer, 0, 3))
    await produce(a, topic, numbered(producer, 3, 2))
    asked = [{"name": topic, "partition_indexes": [0, 1, 9, 0]}]
    await a.ask("DescribeProducers", 0, topics=asked)


@scenario
async def producers_of_unknown_topics(stage: Stage) -> None:
    """A topic that does not exist, a name that none can have, no topic."""
    a = await stage.client()
    for name in (stage.topic_named("none"), "a b"):
        await a.ask("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}])
    await a.ask("DescribeProducers", 0, topics=[])


async def quotas(
    client: Client, *components: tuple[str, int, str | None], version: int = 1
) -> None:
    listed = [
        {"entity_type": entity, "match_type": kind, "match": match}
        for entity, kind, match in components
    ]
    await client.ask("DescribeClientQuotas", version, components=listed, strict=True)


@scenario
async def client_quotas(stage: Stage) -> None:
    """No quotas were set for these clients."""
    a = await stage.client()
    for version in (0, 1):
        await quotas(a, ("user", 0, f"nobody{stage.suffix}"), version=version)
    await quotas(a, ("user", 0, f"nobody{stage.suffix}"), ("client-id", 1, None))


@scenario
async def refused_quota_filters(stage: Stage) -> None:
    """Matches that contradict themselves, entities that do not exist or not together."""
    a = await stage.client()
    await quotas(a, ("user", 0, None))
    await quotas(a, ("user", 1, "x"))
    await quotas(a, ("user", 2, "x"))
    await quotas(a, ("user", 9, None))
    await quotas(a, ("", 2, None))
    await quotas(a, ("tenant", 2, None))
    await quotas(a, ("user", 1, None), ("user", 2, None))
    await quotas(a, ("ip", 2, None), ("user", 2, None), version=0)


@scenario
async def scram_credentials(stage: Stage) -> None:
    """Of users that do not exist, one of them twice."""
    a = await stage.client()
    nobody = {"name": f"nobody{stage.suffix}"}
    for users in ([nobody], [nobody, nobody], [{"name": ""}]):
        await a.ask("DescribeUserScramCredentials", 0, users=users)


@scenario
async def acls(stage: Stage) -> None:
    """Without an authorizer there are no ACLs; the code 0 closes the connection."""
    everything = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    a = await stage.client()
    for version in (1, 2, 3):
        await a.ask("DescribeAcls", version, **everything)
    for field in everything:
        b = await stage.client(field)
        await b.ask("DescribeAcls", 3, **everything | {field: 77})
        await b.ask("DescribeAcls", 3, **everything | {field: 0})


@scenario
async def transactions(stage: Stage) -> None:
    """A producer that does not exist has no transaction; unknown states are told."""
    a = await stage.client()
    for version in (0, 1, 2):
        await a.ask(
            "ListTransactions",
            version,
            state_filters=["Ongoing", "Dead", "Odd"],
            producer_id_filters=[2**62],
            duration_filter=-1,
        )


async def update_features(client: Client, *updates: tuple[str, int, int], version: int = 1) -> None:
    listed = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    await client.ask(
        "UpdateFeatures", version, timeout=TIMEOUT, feature_updates=listed, validate_only=True
    )


async def level_in_force(client: Client) -> int:
    """The level of metadata.version, which stands for the release."""
    told = await client.quiet(
        "ApiVersions", 4, client_software_name="s", client_software_version="1"
    )
    levels = {one["name"]: one["max_version_level"] for one in told["finalized_features"]}
    return int(levels["metadata.version"])


@scenario
async def features(stage: Stage) -> None:
    """Updates to the level in force are accepted, others of the release refused."""
    a = await stage.client()
    level = await level_in_force(a)
    for version in (1, 2):
        await update_features(a, ("metadata.version", level, 1), version=version)
        await update_features(a, ("metadata.version", level - 5, 2), version=version)
        await update_features(a, version=version)
    for other, kind in (
        (level - 5, 1), (level - 5, 3), (99, 1), (0, 2), (-1, 1), (level, 0), (level, 9),
    ):  # fmt: skip
        await update_features(a, ("metadata.version", other, kind))


@scenario
async def features_that_do_not_exist(stage: Stage) -> None:
    """An update of one is refused, and with it those of others."""
    a = await stage.client()
    await update_features(a, ("odd.version", 1, 1))
    await update_features(a, ("odd.version", 0, 2))
    level = await level_in_force(a)
    await update_features(a, ("metadata.version", level, 1), ("odd.version", 1, 1), version=2)
