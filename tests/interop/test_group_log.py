"""Group state across the border: Apache Kafka's tools read Kohort's `__consumer_offsets`, and
Kohort's reader reads Apache Kafka's.
"""

import asyncio
import json
import re
import shutil
import signal
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from interop.observer import Observer
from interop.targets import ApacheKafka, KohortServe, Target
from interop.tools import Tools
from kohort.client import ClientConfig, Cluster, ConsumerGroup, OffsetAndMetadata
from kohort.client.admin.admin import Admin
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.requests import DescribeConsumerGroup, OffsetFetch
from kohort.coordinator.shard import Shard
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.coordinator_common import partition_for
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.runtime.group_log import read_records
from kohort.runtime.log_reading import read_batches
from kohort.types import Instant, Timestamp, TopicPartition
from kohort_conformance.catalogue import all_scenarios
from kohort_conformance.scenario import Scenario
from kohort_conformance.stage import Stage
from peers import kafka

pytestmark = pytest.mark.interop

SHARDS = 2
SETTINGS = {"offsets.topic.num.partitions": str(SHARDS)}
COMMITTED = {
    TopicPartition("orders", 0): OffsetAndMetadata(offset=7, leader_epoch=0, metadata="seven"),
    TopicPartition("orders", 1): OffsetAndMetadata(offset=2**40, leader_epoch=0, metadata="é"),
}
GROUPS = ("billing", "audit", "käse")


async def fill(address: str) -> None:
    """Groups that have committed by hand, one whose offsets are deleted, and one with a member."""
    async with Cluster(ClientConfig(bootstrap=address)) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("orders", partitions=2)
        for group in (*GROUPS, "gone"):
            await admin.commit(group, COMMITTED)
        await admin.delete_groups(["gone"])
    options = {"topics": ["orders"], "bootstrap": address, "client_id": "worker"}
    async with ConsumerGroup("working", **options) as member:
        generation = await member.next()
        async with generation:
            await generation.commit({TopicPartition("orders", 1): 5})
            member.stop()


async def answered(address: str) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """The committed offsets, as the server says them."""
    async with Cluster(ClientConfig(bootstrap=address)) as cluster:
        return await Admin(cluster).committed((*GROUPS, "gone", "working"))


def payloads(printed: str) -> list[dict]:
    """The JSON objects that a formatter printed, with nothing between them."""
    read = json.JSONDecoder().raw_decode
    return [read(printed, each.start())[0] for each in re.finditer(r'\{"key"', printed)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory):
    directory = tmp_path_factory.mktemp("filled")
    server = KohortServe(directory, SETTINGS)
    asyncio.run(fill(server.address))
    yield server, directory / "data"
    server.stop()


def read_by(tools: Tools, target: Target, formatter: str) -> list[dict]:
    """All that the tool prints of each partition, up to its present end."""
    found = []
    for partition, end in Observer(target.address).ends("__consumer_offsets", SHARDS).items():
        found += payloads(
            tools.run(
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
                *("--bootstrap-server", target.address, "--topic", "__consumer_offsets"),
                *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
                *("--partition", partition.rpartition("-")[2], "--offset", "earliest"),
                *("--max-messages", str(end), "--timeout-ms", "60000"),
            )
        )
    return found


def test_the_offsets_formatter_reads_ours(tools: Tools, filled) -> None:
    found = {
        (key["group"], key["topic"], key["partition"]): each["value"]
        for each in read_by(tools, filled[0], "OffsetsMessageFormatter")
        for key in (each["key"]["data"],)
    }
    for group in GROUPS:
        for tp, committed in COMMITTED.items():
            value = found[group, *tp]
            assert value["version"] == 4
            assert value["data"]["offset"] == committed.offset
            assert value["data"]["metadata"] == committed.metadata
    assert found["working", "orders", 1]["data"]["offset"] == 5
    assert found["gone", "orders", 0] is None, "a tombstone"


def test_the_group_metadata_formatter_reads_ours(tools: Tools, filled) -> None:
    found = [
        each["value"]["data"]
        for each in read_by(tools, filled[0], "GroupMetadataMessageFormatter")
        if each["key"]["data"]["group"] == "working" and each["value"] is not None
    ]
    stable = next(each for each in found if each["members"])
    assert (stable["protocolType"], stable["protocol"], stable["generation"]) == (
        *("consumer", "range"),
        1,
    )
    (member,) = stable["members"]
    assert stable["leader"] == member["memberId"]
    assert member["clientId"] == "worker"
    assert found[-1]["members"] == []


def test_dump_log_decodes_ours(tools: Tools, filled) -> None:
    _, data = filled
    segments = sorted(data.glob("__consumer_offsets-*/*.log"))
    assert segments
    printed = tools.run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--files", ",".join(map(str, segments))),
    )
    assert "isvalid: false" not in printed
    keys = [json.loads(each) for each in re.findall(r" key: (\{.*?\}) payload:", printed)]
    values = [json.loads(each) for each in re.findall(r" payload: (\{.*\})", printed)]
    commits = {
        (each["data"]["group"], each["data"]["topic"], each["data"]["partition"])
        for each in keys
        if each["type"] in (1, "1")
    }
    assert {(group, *tp) for group in GROUPS for tp in COMMITTED} <= commits, printed[:3_000]
    assert {"7", str(2**40), "5"} <= {
        str(each["data"]["offset"]) for each in values if "offset" in each["data"]
    }


# --- the other way ---


def loaded(data: Path, shards: int, groups: Iterable[str] = ()) -> dict[str, Shard]:
    """The shard of each group, also of `groups`, replayed by Kohort from a directory of logs."""
    directory = LocalDirectory(data)
    found = {}
    for number in range(shards):
        shard = Shard(GroupCoordinatorConfig())
        log = directory.open(TopicPartition("__consumer_offsets", number), LogConfig())
        for records in read_records(read_batches(log)):
            for record in records:
                shard.replay(record)
        for group in (*GROUPS, "gone", "working", *IN_TRANSACTIONS, *groups):
            if partition_for(group, shards) == number:
                found[group] = shard
    directory.close()
    return found


@pytest.mark.clients
def test_our_reader_reads_what_a_real_kafka_wrote(tmp_path: Path) -> None:
    if reason := kafka.missing_tools():
        pytest.skip(reason)
    node = ApacheKafka(kafka.free_port(1), SETTINGS)
    try:
        asyncio.run(fill(node.address))
        said = asyncio.run(answered(node.address))
        LocalDirectory(tmp_path / "data").close()
        for number in range(SHARDS):
            name = f"__consumer_offsets-{number}"
            shutil.copytree(node.data / name, tmp_path / "data" / name)
    finally:
        node.stop()
    shards = loaded(tmp_path / "data", SHARDS)
    for group, offsets in said.items():
        known = shards[group].groups.get(group)
        read = {} if known is None else known.offsets
        assert {tp: (each.offset, each.metadata) for tp, each in read.items()} == {
            tp: (each.offset, each.metadata) for tp, each in offsets.items()
        }
    assert said["working"]
    assert not said["gone"]


# --- consumer groups ---


SUBJECTS = ("mixed_groups", "consumer_reconciling", "consumer_regexes", "consumer_leaving")
"""Scenarios whose groups are left as they are."""
Description = dict[str, tuple[str, int, int, dict[str, tuple[object, ...]]]]
"""Group → state, epoch, epoch of the target, and what each member is and has."""


async def play(address: str) -> tuple[Description, FixedTopics]:
    """Play the scenarios; what the server then says of all consumer groups, and the topics."""
    host, _, port = address.rpartition(":")

    async def one(item: Scenario) -> None:
        stage = Stage(host, int(port), item.name.replace("_", "-"), "")
        await item.play(stage)
        await stage.close()

    items = [each for each in all_scenarios() if each.subject in SUBJECTS and not each.waits]
    await asyncio.gather(*map(one, items))
    stage = Stage(host, int(port), "describing", "")
    client = await stage.client()
    listed = await client.quiet("ListGroups", 5, states_filter=[], types_filter=["consumer"])
    ids = [each["group_id"] for each in listed["groups"]]
    told = await client.quiet("ConsumerGroupDescribe", 1, group_ids=ids)
    metadata = await client.quiet("Metadata", 12, topics=None)
    await stage.close()
    images = (
        TopicImage(each["name"], UUID(str(each["topic_id"])), len(each["partitions"]))
        for each in metadata["topics"]
    )
    return {each["group_id"]: said_of(each) for each in told["groups"]}, FixedTopics(images)


def said_of(group: dict) -> tuple[str, int, int, dict[str, tuple[object, ...]]]:
    def partitions(assignment: dict) -> set[tuple[str, int]]:
        return {
            (str(topic["topic_id"]), number)
            for topic in assignment["topic_partitions"]
            for number in topic["partitions"]
        }

    members = {
        each["member_id"]: (
            *(each["member_epoch"], each["instance_id"], sorted(each["subscribed_topic_names"])),
            *(each["subscribed_topic_regex"], each["member_type"] == 0),
            *(partitions(each["assignment"]), partitions(each["target_assignment"])),
        )
        for each in group["members"]
    }
    return group["group_state"], group["group_epoch"], group["assignment_epoch"], members


def read_of(shard: Shard, group: str) -> tuple[str, int, int, dict[str, tuple[object, ...]]]:
    def partitions(assignment: Mapping[UUID, Collection[int]]) -> set[tuple[str, int]]:
        known = {each: numbers for each, numbers in assignment.items() if shard.topics.by_id(each)}
        return {(str(each), number) for each, numbers in known.items() for number in numbers}

    request = DescribeConsumerGroup(on_response=None, group=group)
    ((_, found),) = shard.handle(request, Instant(0), Timestamp(0)).replies
    members = {
        each.member_id: (
            *(each.epoch, each.metadata.instance_id, sorted(each.metadata.topics)),
            *(each.metadata.regex, each.metadata.classic is not None),
            *(partitions(each.assignment), partitions(each.target)),
        )
        for each in found.members
    }
    return str(found.state), found.epoch, found.target_epoch, members


@pytest.mark.clients
def test_our_reader_reads_consumer_groups_that_a_real_kafka_wrote(tmp_path: Path) -> None:
    if reason := kafka.missing_tools():
        pytest.skip(reason)
    at_once = {
        "group.consumer.assignment.interval.ms": "0",
        "group.initial.rebalance.delay.ms": "0",
    }
    node = ApacheKafka(kafka.free_port(1), SETTINGS | at_once)
    try:
        node.warm_up()
        said, topics = asyncio.run(play(node.address))
        node.process.send_signal(signal.SIGSTOP)  # no session expires any more
        LocalDirectory(tmp_path / "data").close()
        for number in range(SHARDS):
            name = f"__consumer_offsets-{number}"
            shutil.copytree(node.data / name, tmp_path / "data" / name)
    finally:
        node.process.send_signal(signal.SIGCONT)
        node.stop()
    shards = loaded(tmp_path / "data", SHARDS, said)
    for group, description in said.items():
        shards[group].topics = topics
        assert read_of(shards[group], group) == description, group
    assert {"Empty", "Stable", "Reconciling"} <= {state for state, *_ in said.values()}
    assert any(member[4] for *_, members in said.values() for member in members.values())


# --- transactions ---


IN_TRANSACTIONS = ("committed", "aborted", "open", "twice", "overtaken")


class Transactions:
    """Transactional producers of librdkafka that commit offsets of `orders`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._consumers: dict[str, Consumer] = {}

    def begin(self, name: str) -> Producer:
        producer = Producer({"bootstrap.servers": self._address, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        return producer

    def consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            consumer = Consumer({"bootstrap.servers": self._address, "group.id": group})
            consumer.assign([ConfluentPartition("orders", 0, 0)])
            self._consumers[group] = consumer
        return self._consumers[group]

    def commit(self, producer: Producer, group: str, *offsets: int) -> None:
        partitions = [ConfluentPartition("orders", n, each) for n, each in enumerate(offsets)]
        metadata = self.consumer(group).consumer_group_metadata()
        producer.send_offsets_to_transaction(partitions, metadata, 60)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


def fill_transactions(address: str) -> list[Producer]:
    """Transactions that are committed, aborted, open and interleaved; returns the open ones."""
    transactions = Transactions(address)
    first, second = transactions.begin("first"), transactions.begin("second")
    for group in ("committed", "twice", "overtaken"):
        transactions.commit(first, group, 10, 11)
    transactions.commit(second, "twice", 20)
    late = [ConfluentPartition("orders", 0, 30)]
    transactions.consumer("overtaken").commit(offsets=late, asynchronous=False)
    second.commit_transaction(60)
    first.commit_transaction(60)
    second.begin_transaction()
    transactions.commit(second, "committed", 40)
    transactions.commit(second, "aborted", 41)
    second.abort_transaction(60)
    first.begin_transaction()
    transactions.commit(first, "open", 50, 51)
    transactions.commit(first, "twice", 52)
    transactions.close()
    return [first]


def said_of_transactions(address: str) -> dict[tuple[str, int, bool], int | str]:
    """By group, partition and require_stable: the committed offset, -1, or the error's name."""
    admin = AdminClient({"bootstrap.servers": address})
    asked = [ConfluentPartition("orders", number) for number in range(2)]
    said: dict[tuple[str, int, bool], int | str] = {}
    for group in IN_TRANSACTIONS:
        for stable in (False, True):
            request = [ConsumerGroupTopicPartitions(group, asked)]
            (found,) = admin.list_consumer_group_offsets(request, require_stable=stable).values()
            for each in found.result(30).topic_partitions:
                offset = -1 if each.offset < 0 else each.offset
                error = each.error.name().lower() if each.error else offset
                said[group, each.partition, stable] = error
    return said


def read_of_transactions(shards: dict[str, Shard]) -> dict[tuple[str, int, bool], int | str]:
    """The same, from the shards."""
    read: dict[tuple[str, int, bool], int | str] = {}
    for group in IN_TRANSACTIONS:
        for stable in (False, True):
            partitions = tuple(TopicPartition("orders", number) for number in range(2))
            fetch = OffsetFetch(
                on_response=None, group=group, partitions=partitions, require_stable=stable
            )
            ((_, response),) = shards[group].handle(fetch, Instant(0), Timestamp(0)).replies
            for each in response.offsets:
                error = each.error.name if each.error else each.offset
                read[group, each.partition, stable] = error
    return read


@pytest.mark.clients
def test_our_reader_reads_transactions_that_a_real_kafka_wrote(tmp_path: Path) -> None:
    if reason := kafka.missing_tools():
        pytest.skip(reason)
    node = ApacheKafka(kafka.free_port(1), SETTINGS)
    try:
        asyncio.run(fill(node.address))
        still_open = fill_transactions(node.address)
        said = said_of_transactions(node.address)
        while said["aborted", 0, True] != -1:  # EndTxn is answered before its markers are written
            said = said_of_transactions(node.address)
        LocalDirectory(tmp_path / "data").close()
        for number in range(SHARDS):
            name = f"__consumer_offsets-{number}"
            shutil.copytree(node.data / name, tmp_path / "data" / name)
    finally:
        node.stop()
    assert still_open
    assert read_of_transactions(loaded(tmp_path / "data", SHARDS)) == said
    assert said["committed", 0, True] == 10
    assert said["open", 0, True] == "unstable_offset_commit"
    assert said["twice", 0, False] == 20
    assert said["overtaken", 0, True] == 30
