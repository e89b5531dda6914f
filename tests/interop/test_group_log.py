"""Group state across the border: Apache Kafka's tools read Kohort's `__consumer_offsets`, and
Kohort's reader reads Apache Kafka's.
"""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from interop.targets import ApacheKafka, KohortServe, Target
from interop.tools import Tools
from kohort.client import ClientConfig, Cluster, ConsumerGroup, OffsetAndMetadata
from kohort.client.admin.admin import Admin
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.partition import partition_for
from kohort.coordinator.shard import Shard
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.runtime.group_log import read_records
from kohort.types import TopicPartition
from peers import kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

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
    async with ConsumerGroup("working", **options) as group:
        generation = await group.next()
        async with generation:
            await generation.commit({TopicPartition("orders", 1): 5})
            group.stop()


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
    printed = tools.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", target.address, "--topic", "__consumer_offsets"),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        *("--from-beginning", "--timeout-ms", "4000"),
    )
    return payloads(printed)


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


def loaded(data: Path, shards: int) -> dict[str, Shard]:
    """Each group's shard, replayed by Kohort from a directory of logs."""
    directory = LocalDirectory(data)
    found = {}
    for number in range(shards):
        shard = Shard(GroupCoordinatorConfig())
        log = directory.open(TopicPartition("__consumer_offsets", number), LogConfig())
        for records in read_records(log):
            for record in records:
                shard.replay(record)
        for group in (*GROUPS, "gone", "working"):
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
