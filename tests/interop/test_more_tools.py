"""Apache Kafka's other tools: console clients, performance tests, more of `kafka-topics`, offsets,
records, configs.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.processes import PATIENCE_S, Process, finish, write_lines
from interop.programs import CODECS, JAVA, java
from interop.targets import Target
from interop.tools import TOPICS, Tool, Tools
from interop.trial import PARTITIONS, Trial

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERF = "org.apache.kafka.tools.ConsumerPerformance"

TIMES = {
    "latest": True,
    "-1": True,
    "earliest": False,
    "-2": False,
    "earliest-local": False,
    "-4": False,
    "latest-tiered": False,
    "-5": False,
    "earliest-pending-upload": False,
    "-6": False,
    "1": False,
    "99999999999999": False,
}
"""Times of `kafka-get-offsets`, and whether they find the end of each partition; all others find
its beginning, or nothing.
"""

pytestmark = [pytest.mark.interop, pytest.mark.clients]


@pytest.fixture
def tool(tools: Tools, target: Target) -> Callable[[str], Tool]:
    """Any tool, by its main class."""
    return lambda main_class: Tool(tools, main_class, target.address)


@pytest.fixture
def trial(tools: Tools, target: Target, trial_on: Callable[[Target], Trial]) -> Trial:
    return trial_on(target)


# --- kafka-console-producer and -consumer
# ----------------------------------------------------------------------------


def console_producer(trial: Trial, directory: Path, *flags: str) -> Process:
    command = java(
        CONSOLE_PRODUCER, "--bootstrap-server", trial.target.address, "--topic", trial.topic, *flags
    )
    return Process("console-producer", command, directory / "console-producer.log")


def test_console_clients_share_a_group(
    trial: Trial, tmp_path: Path, tool: Callable[[str], Tool]
) -> None:
    """`kafka-console-producer` and `-consumer`: keys, headers, a consumer that resumes."""
    producer = console_producer(
        trial,
        tmp_path,
        "--compression-codec",
        "zstd",
        *("--reader-property", "parse.key=true"),
        *("--reader-property", "parse.headers=true"),
    )
    lines = [(f"trace:{number}", f"key-{number}\tvalue-{number}") for number in range(100)]
    write_lines(producer, lines)
    finish(producer)
    flags = [
        "--topic",
        trial.topic,
        "--group",
        trial.group,
        "--from-beginning",
        "--timeout-ms",
        "10000",
    ]
    for name in ("key", "headers", "partition", "offset"):
        flags += ["--formatter-property", f"print.{name}=true"]
    first = tool(CONSOLE_CONSUMER)(*flags, "--max-messages", "60")
    second = tool(CONSOLE_CONSUMER)(*flags, "--max-messages", "40")
    found = re.findall(
        (r"Partition:\d+\tOffset:\d+\t(trace:\d+)\t(key-\d+)\t(value-\d+)"), first + second
    )
    assert sorted(found) == sorted((header, *rest.split("\t")) for header, rest in lines)


def test_the_console_consumer_reads_one_partition_from_an_offset(
    trial: Trial, tool: Callable[[str], Tool]
) -> None:
    """`kafka-console-consumer --partition --offset`."""
    trial.produce(JAVA, (f"record-{number}" for number in range(60)))
    end = trial.ends()[f"{trial.topic}-0"]
    flags = (
        "--topic",
        trial.topic,
        "--partition",
        "0",
        "--offset",
        str(end - 2),
        "--timeout-ms",
        "1000",
    )
    said = tool(CONSOLE_CONSUMER)(*flags)
    assert len(re.findall(r"^record-\d+$", said, re.MULTILINE)) == 2
    assert "Processed a total of 2 messages" in said


# --- kafka-producer-perf-test and kafka-consumer-perf-test
# -----------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_the_performance_tests_succeed(
    trial: Trial, tool: Callable[[str], Tool], codec: str
) -> None:
    """`kafka-producer-perf-test`, `kafka-consumer-perf-test`."""
    flags = (
        "--topic",
        trial.topic,
        "--num-records",
        "20000",
        "--record-size",
        "100",
        "--throughput",
        "-1",
    )
    said = tool(PRODUCER_PERF)(*flags, "--command-property", f"compression.type={codec}")
    assert re.search(r"20000 records sent, [\d.]+ records/sec", said)
    assert sum(trial.ends().values()) == 20_000
    consumed = tool(CONSUMER_PERF)(
        "--topic", trial.topic, "--group", trial.group, "--num-records", "20000"
    )
    assert consumed_records(consumed) == 20_000


def consumed_records(said: str) -> int:
    """From the tool's comma-separated table."""
    lines = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
    at = next(at for at, line in enumerate(lines) if "data.consumed.in.nMsg" in line)
    return int(lines[at + 1][lines[at].index("data.consumed.in.nMsg")])


# --- kafka-verifiable-producer and -consumer, kafka-e2e-latency
# --------------------------------------------------------------------------------------------------


def test_the_verifiable_clients_agree(trial: Trial) -> None:
    """`kafka-verifiable-producer`, `kafka-verifiable-consumer`."""
    sent = verifiable(trial, "VerifiableProducer", "--max-messages", "100", "--value-prefix", "7")
    sent_values = [told["value"] for told in sent if told["name"] == "producer_send_success"]
    assert sorted(sent_values) == sorted(f"7.{number}" for number in range(100))
    group = ("--group-id", trial.group, "--reset-policy", "earliest", "--verbose")
    read = verifiable(trial, "VerifiableConsumer", "--max-messages", "100", *group)
    read_values = [told["value"] for told in read if told["name"] == "record_data"]
    assert sorted(read_values) == sorted(sent_values)
    committed = [told for told in read if told["name"] == "offsets_committed"]
    assert committed
    assert all(told["success"] for told in committed)


def verifiable(trial: Trial, name: str, *flags: str) -> list[dict[str, Any]]:
    """All that one of the verifiable clients tells, which have threads that outlive `main`."""
    told: list[dict[str, Any]] = []
    at = ("--bootstrap-server", trial.target.address, "--topic", trial.topic)
    command = java(f"org.apache.kafka.tools.{name}", *at, *flags)
    process = trial.start(
        name, command, lambda line: told.append(json.loads(line)) if line.startswith("{") else None
    )
    assert process.wait(PATIENCE_S) == 0, process.tail()
    return told


def test_the_latency_test_succeeds(trial: Trial, tool: Callable[[str], Tool]) -> None:
    """`kafka-e2e-latency`."""
    topic = f"{trial.topic}-latency"  # the tool creates it
    flags = (
        "--topic",
        topic,
        "--num-records",
        "50",
        "--producer-acks",
        "all",
        "--record-size",
        "20",
    )
    said = tool("org.apache.kafka.tools.EndToEndLatency")(*flags)
    assert re.search(r"Percentiles: 50th = \d+, 99th = \d+", said)


# --- kafka-topics
# -------------------------------------------------------------------------------------------------


def test_unhealthy_topics_are_described(trial: Trial, tool: Callable[[str], Tool]) -> None:
    """`kafka-topics --describe` with its filters and its paging."""
    topics = tool(TOPICS)
    for ailment in (
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--under-min-isr-partitions",
    ):
        assert trial.topic not in topics("--describe", "--topic", trial.topic, ailment)
    assert (
        topics("--describe", "--topic", trial.topic, "--at-min-isr-partitions").count("Partition:")
        == PARTITIONS
    )
    overridden = f"{trial.topic}-overridden"
    topics("--create", "--topic", overridden, "--config", "max.message.bytes=2000")
    assert overridden in topics("--describe", "--topic", overridden, "--topics-with-overrides")
    paged = topics("--describe", "--topic", trial.topic, "--partition-size-limit-per-response", "2")
    assert len(re.findall(r"Partition: \d+", paged)) == PARTITIONS


def test_topics_are_found_by_pattern_and_id(trial: Trial, tool: Callable[[str], Tool]) -> None:
    """`--topic` as a pattern, `--topic-id`, `--exclude-internal`."""
    topics = tool(TOPICS)
    described = topics("--describe", "--topic", f"{trial.topic[:-3]}.*")
    found = re.search(r"TopicId: (\S{22})", described)
    assert found
    assert f"Topic: {trial.topic}" in topics("--describe", "--topic-id", found[1])
    assert "__consumer_offsets" in topics("--list").split()
    assert "__consumer_offsets" not in topics("--list", "--exclude-internal").split()


def test_topics_are_created_and_deleted_conditionally(
    trial: Trial, tool: Callable[[str], Tool]
) -> None:
    """`--if-not-exists`, `--if-exists`, `--replica-assignment`."""
    topics = tool(TOPICS)
    assert "Error" not in topics(
        "--create", "--if-not-exists", "--topic", trial.topic, "--partitions", "2"
    )
    assert f"PartitionCount: {PARTITIONS}" in topics("--describe", "--topic", trial.topic)
    assert "Error" not in topics("--delete", "--if-exists", "--topic", "no-such-topic")
    assert "Error" not in topics(
        "--alter", "--if-exists", "--topic", "no-such-topic", "--partitions", "3"
    )
    leader = leader_of(trial, tool)
    placed = f"{trial.topic}-placed"
    said = topics("--create", "--topic", placed, "--replica-assignment", f"{leader},{leader}")
    assert f"Created topic {placed}" in said
    assert "PartitionCount: 2" in topics("--describe", "--topic", placed)


def leader_of(trial: Trial, tool: Callable[[str], Tool]) -> str:
    found = re.search(r"Leader: (\d+)", tool(TOPICS)("--describe", "--topic", trial.topic))
    assert found
    return found[1]


# --- kafka-get-offsets, kafka-delete-records, kafka-configs, kafka-broker-api-versions
# -------------------------------


def test_offsets_are_listed_and_records_deleted(
    trial: Trial, tool: Callable[[str], Tool], tmp_path: Path
) -> None:
    """`kafka-get-offsets`, `kafka-delete-records`."""
    trial.produce(JAVA, (f"record-{number}" for number in range(60)))
    get_offsets = tool("org.apache.kafka.tools.GetOffsetShell")

    def told(*flags: str) -> dict[str, int]:
        found = re.findall(rf"^({trial.topic}):(\d+):(\d+)$", get_offsets(*flags), re.MULTILINE)
        return {f"{topic}-{number}": int(offset) for topic, number, offset in found if int(offset)}

    ends = trial.ends()
    assert told("--topic", trial.topic) == ends
    assert told("--topic", trial.topic, "--time", "earliest") == {}
    assert told("--topic-partitions", f"{trial.topic}:1-3") == {
        name: end for name, end in ends.items() if name[-2:] in ("-1", "-2")
    }
    assert sum(told("--topic", trial.topic, "--time", "max-timestamp").values()) > 0
    for time, found in TIMES.items():
        assert told("--topic", trial.topic, "--time", time) == (ends if found else {}), time
    plan = tmp_path / "delete.json"
    plan.write_text(
        json.dumps(
            {"version": 1, "partitions": [{"topic": trial.topic, "partition": 0, "offset": 3}]}
        )
    )
    said = tool("org.apache.kafka.tools.DeleteRecordsCommand")("--offset-json-file", str(plan))
    assert re.search(r"low_watermark:\s*3", said)
    assert told("--topic", trial.topic, "--time", "earliest") == {f"{trial.topic}-0": 3}


def test_configs_of_a_topic_are_altered(trial: Trial, tool: Callable[[str], Tool]) -> None:
    """`kafka-configs`."""
    configs = tool("org.apache.kafka.tools.ConfigCommand")
    entity = ("--entity-type", "topics", "--entity-name", trial.topic)
    assert "Completed updating config" in configs(
        "--alter", *entity, "--add-config", "retention.ms=7200000"
    )
    assert "retention.ms=7200000" in configs("--describe", *entity)
    assert "retention.ms=7200000" in configs("--describe", "--all", *entity)
    assert "Completed updating config" in configs(
        "--alter", *entity, "--delete-config", "retention.ms"
    )
    assert "retention.ms=7200000" not in configs("--describe", *entity)
    of_broker = ("--all", "--entity-type", "brokers", "--entity-name", leader_of(trial, tool))
    assert "group.min.session.timeout.ms=6000" in configs("--describe", *of_broker)


def test_api_versions_are_listed(tool: Callable[[str], Tool]) -> None:
    """`kafka-broker-api-versions`."""
    said = tool("org.apache.kafka.tools.BrokerApiVersionsCommand")()
    assert re.search(r"JoinGroup\(11\): \d+ to 9 \[usable: 9\]", said)
    assert re.search(r"OffsetCommit\(8\): 2 to 10 \[usable: 10\]", said)
