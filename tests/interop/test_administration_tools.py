"""Apache Kafka's own command line tools of administrators, in the modes that one node can serve."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from interop import targets
from interop.targets import Target
from interop.tools import CONFIGS, TOPICS, Tool, Tools

pytestmark = [pytest.mark.interop, pytest.mark.clients]
Run = Callable[..., str]
PACKAGE = "org.apache.kafka.tools"
TOPIC = "administered"


@pytest.fixture
def run(tools: Tools, target: Target) -> Run:
    """Call a tool by its class, against the server, which has a topic of two partitions."""
    topics = Tool(tools, TOPICS, target.address)
    topics("--create", "--if-not-exists", "--topic", TOPIC, "--partitions", "2")

    def call(name: str, *flags: str) -> str:
        main_class = f"{PACKAGE}.{name}"
        if name == "ClusterTool":  # its command comes first
            return tools.run(main_class, *flags, "--bootstrap-server", target.address)
        return Tool(tools, main_class, target.address)(*flags)

    return call


def test_sizes_of_logs(run: Run) -> None:
    printed = run("LogDirsCommand", "--describe", "--topic-list", TOPIC)
    told = json.loads(printed[printed.index('{"') :])
    (directory,) = told["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert {each["partition"] for each in directory["partitions"]} == {f"{TOPIC}-0", f"{TOPIC}-1"}


def test_features_and_quorum(run: Run) -> None:
    assert re.search(
        r"metadata.version.*FinalizedVersionLevel: 4\.", run("FeatureCommand", "describe")
    )
    status = run("MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"MaxFollowerLag:\s+0", status)
    assert re.search(r"\d\s+Leader", run("MetadataQuorumCommand", "describe", "--replication"))


def test_replicas_stay_where_they_are(run: Run, tmp_path: Path) -> None:
    elect = ("LeaderElectionCommand", "--election-type", "preferred")
    assert "Error" not in run(*elect, "--all-topic-partitions")
    assert "already elected" in run(*elect, "--topic", TOPIC, "--partition", "0")
    reassign = "reassign.ReassignPartitionsCommand"
    assert "No partition reassignments found." in run(reassign, "--list")
    plan = tmp_path / "plan.json"
    moved = {"topic": TOPIC, "partition": 0, "replicas": [77]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    refused = run(reassign, "--reassignment-json-file", str(plan), "--execute")
    assert re.search("Unknown broker|InvalidReplicaAssignment|no such broker", refused)


@pytest.mark.skipif(targets.PEER != "", reason="others may serve it")
def test_tools_for_unserved_apis_say_so(run: Run) -> None:
    assert "No Authorizer is configured on the broker" in run("AclCommand", "--list")
    assert "unregistration API" in run("ClusterTool", "unregister", "--id", "77")
    share = run("consumer.group.ShareGroupCommand", "--describe", "--group", TOPIC)
    assert "The node does not support SHARE_GROUP_DESCRIBE" in share
    streams = run("streams.StreamsGroupCommand", "--describe", "--group", TOPIC)
    assert "The node does not support STREAMS_GROUP_DESCRIBE" in streams
    shared = run("consumer.ConsoleShareConsumer", "--topic", TOPIC, "--timeout-ms", "2000")
    assert "The cluster does not support the share group protocol" in shared


def test_kafka_transactions_lists_describes_and_aborts(run: Run) -> None:
    """`kafka-transactions`: none, and producers that have none."""
    partition = ("--topic", TOPIC, "--partition", "0")
    assert run("TransactionsCommand", "list").split()[0] == "TransactionalId"
    assert "ProducerId" in run("TransactionsCommand", "describe-producers", *partition)
    assert "ProducerId" in run("TransactionsCommand", "find-hanging", "--topic", TOPIC)
    aborted = run("TransactionsCommand", "abort", *partition, "--start-offset", "0")
    assert "Could not find any open transactions" in aborted
    described = run("TransactionsCommand", "describe", "--transactional-id", "some")
    assert "the ID could not be found" in described


def test_kafka_cluster_shows_id_and_endpoints(run: Run, target: Target) -> None:
    """`kafka-cluster`."""
    assert re.fullmatch(r"Cluster ID: \S{22}", run("ClusterTool", "cluster-id").strip())
    host, port = target.address.split(":")
    listed = run("ClusterTool", "list-endpoints").splitlines()
    assert listed[1].split()[1:] == [host, port, "null", "unfenced", "broker"]


def test_groups_of_all_types(run: Run) -> None:
    """`kafka-groups`."""
    group = f"{TOPIC}-group"
    topic = ("--topic", TOPIC, "--timeout-ms", "1000")
    run("consumer.ConsoleConsumer", *topic, "--group", group)
    for flags in ((), ("--consumer",), ("--group-type", "classic"), ("--protocol", "consumer")):
        listed = run("GroupsCommand", "--list", *flags)
        assert [group, "Classic", "consumer"] in [line.split() for line in listed.splitlines()]
    for kind in ("--share", "--streams"):
        assert group not in run("GroupsCommand", "--list", kind)
    for name in ("consumer.group.ShareGroupCommand", "streams.StreamsGroupCommand"):
        assert run(name, "--list").strip() == ""


def test_offsets_and_records(run: Run, tmp_path: Path) -> None:
    assert f"{TOPIC}:0:0" in run("GetOffsetShell", "--topic", TOPIC)
    wanted = tmp_path / "offsets.json"
    before = {"topic": TOPIC, "partition": 0, "offset": 0}
    wanted.write_text(json.dumps({"version": 1, "partitions": [before]}))
    deleted = run("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert re.search(rf"partition: {TOPIC}-0\s+low_watermark: 0", deleted)


def test_kafka_client_metrics_alters_lists_and_deletes(run: Run) -> None:
    named = ("--name", "administered")
    run("ClientMetricsCommand", "--alter", *named, "--metrics", "a.b", "--interval", "1000")
    assert "administered" in run("ClientMetricsCommand", "--list").split()
    assert "interval.ms=1000" in run("ClientMetricsCommand", "--describe", *named)
    run("ClientMetricsCommand", "--delete", *named)
    assert "administered" not in run("ClientMetricsCommand", "--list").split()


class TestConfigs:
    @pytest.fixture
    def configs(self, run: Run, tools: Tools, target: Target) -> Tool:
        """For the server to which `run` has added the topic."""
        return Tool(tools, CONFIGS, target.address)

    @pytest.fixture
    def node(self, run: Run) -> str:
        printed = run("LogDirsCommand", "--describe", "--topic-list", TOPIC)
        return str(json.loads(printed[printed.index('{"') :])["brokers"][0]["broker"])

    def altered(self, configs: Tool, kind: str, name: tuple[str, ...], config: str) -> str:
        """What is described of the entity after the change, which is deleted again."""
        entity = ("--entity-type", kind, *name)
        assert "Completed" in configs(*entity, "--alter", "--add-config", config)
        described = configs(*entity, "--describe")
        key = config.partition("=")[0]
        assert "Completed" in configs(*entity, "--alter", "--delete-config", key)
        assert config not in configs(*entity, "--describe")
        return described

    def test_kafka_configs_alters_topic_and_group_configs(self, configs: Tool) -> None:
        name = ("--entity-name", TOPIC)
        assert "DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in self.altered(
            configs, "topics", name, "retention.ms=5000"
        )
        assert "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=46000" in self.altered(
            configs, "groups", name, "consumer.session.timeout.ms=46000"
        )

    @pytest.mark.parametrize(
        ("kind", "name", "quota"),
        [
            ("users", "alice", "request_percentage"),
            ("clients", TOPIC, "producer_byte_rate"),
            ("ips", "10.9.8.7", "connection_creation_rate"),
        ],
    )
    def test_kafka_configs_alters_quotas(
        self, configs: Tool, kind: str, name: str, quota: str
    ) -> None:
        entity = ("--entity-type", kind, "--entity-name", name)
        assert "Completed" in configs(*entity, "--alter", "--add-config", f"{quota}=1024")
        assert f"{quota}=1024.0" in configs(*entity, "--describe")
        assert "Completed" in configs(*entity, "--alter", "--delete-config", quota)
        assert quota not in configs(*entity, "--describe")

    def test_kafka_configs_alters_broker_configs(self, configs: Tool, node: str) -> None:
        config = "log.cleaner.backoff.ms=14000"
        for name, source in (
            (("--entity-default",), "DYNAMIC_DEFAULT_BROKER_CONFIG"),
            (("--entity-name", node), "DYNAMIC_BROKER_CONFIG"),
        ):
            assert f"{source}:{config}" in self.altered(configs, "brokers", name, config)
        entity = ("--entity-type", "brokers", "--entity-name", node)
        refused = configs(*entity, "--alter", "--add-config", "node.id=9")
        assert "Cannot update these configs dynamically" in refused
        assert "node.id=" in configs(*entity, "--describe", "--all")

    def test_kafka_configs_alters_logger_levels(self, configs: Tool, node: str) -> None:
        entity = ("--entity-type", "broker-loggers", "--entity-name", node)
        level = re.search(r"root=(\w+)", configs(*entity, "--describe"))
        assert level is not None
        assert "Completed" in configs(*entity, "--alter", "--add-config", f"root={level[1]}")
        refused = configs(*entity, "--alter", "--add-config", "no.such.logger=INFO")
        assert "Invalid broker logger" in refused
