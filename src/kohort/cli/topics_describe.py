"""Show topics: their ids and configs, and the leader, offsets and size of each partition.

Offsets and sizes that cannot be read, as those of a partition without a leader, are shown as "-".
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kohort.cli.configs import was_set_on_topic
from kohort.cli.exit_codes import FAILED
from kohort.cli.near_names import NO_ACL, REFUSALS, near_topics
from kohort.cli.output import Table, print_message, show
from kohort.cli.watch import run_watched
from kohort.client.admin import Admin, ConfigResource
from kohort.client.cluster import PartitionMetadata, TopicMetadata
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition

_COLUMNS = (
    "TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "START-OFFSET", "END-OFFSET", "BYTES",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Topics with the results of other requests."""

    topics: Sequence[TopicMetadata]
    ends: Mapping[TopicPartition, tuple[int, int]]
    """Start and end offset."""
    sizes: Mapping[TopicPartition, int]
    """Bytes at the leader."""
    configs: Mapping[str, Mapping[str, str | None]]
    """The configs that were set for each topic; without topics whose configs may not be read."""

    def of(
        self, topic: str, partition: PartitionMetadata
    ) -> tuple[int | None, int | None, int | None]:
        """Start offset, end offset and bytes of a partition."""
        tp = TopicPartition(topic, partition.index)
        start, end = self.ends.get(tp, (None, None))
        return start, end, self.sizes.get(tp)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""

    async def work(admin: Admin) -> int:
        outcomes = await admin.describe_topics(options.topic or None)
        topics = [
            outcome for _, outcome in sorted(outcomes.items()) if isinstance(outcome, TopicMetadata)
        ]
        _show(options, await _described(admin, topics))
        accepted = (ErrorCode.unknown_topic_or_partition,) if options.if_exists else ()
        missing = {
            topic: outcome
            for topic, outcome in outcomes.items()
            if isinstance(outcome, KafkaError) and outcome.code not in accepted
        }
        for topic, error in missing.items():
            is_unknown = error.code is ErrorCode.unknown_topic_or_partition
            hint = await near_topics(admin, [topic]) if is_unknown else ""
            hint = NO_ACL if error.code in REFUSALS else hint
            print_message(f"{error}{hint}")
        return FAILED if missing else 0

    return run_watched(options, work)


async def _described(admin: Admin, topics: Sequence[TopicMetadata]) -> Described:
    partitions = [
        TopicPartition(topic.name, partition.index)
        for topic in topics
        for partition in topic.partitions
    ]
    return Described(
        topics=topics,
        ends=await admin.ends(partitions) if partitions else {},
        sizes=await _sizes(admin, topics),
        configs=await _configs(admin, topics),
    )


async def _sizes(admin: Admin, topics: Sequence[TopicMetadata]) -> dict[TopicPartition, int]:
    leaders = {
        TopicPartition(topic.name, partition.index): partition.leader
        for topic in topics
        for partition in topic.partitions
    }
    nodes = {leader for leader in leaders.values() if leader in admin.cluster.brokers}
    if not nodes:
        return {}
    return {
        tp: size
        for node, directories in (await admin.describe_log_dirs(nodes)).items()
        if not isinstance(directories, KohortError)
        for directory in directories
        for tp, size in directory.sizes.items()
        if leaders.get(tp) == node
    }


async def _configs(
    admin: Admin, topics: Sequence[TopicMetadata]
) -> dict[str, dict[str, str | None]]:
    if not topics:
        return {}
    outcomes = await admin.describe_configs(
        [ConfigResource("topic", topic.name) for topic in topics]
    )
    return {
        resource.name: {
            entry.name: entry.value
            for _, entry in sorted(configs.items())
            if was_set_on_topic(entry)
        }
        for resource, configs in outcomes.items()
        if not isinstance(configs, KohortError)
    }


def _show(options: argparse.Namespace, described: Described) -> None:
    rows = [
        (
            topic.name, partition.index, partition.leader, _numbers(partition.replicas),
            _numbers(partition.isr),
            *described.of(topic.name, partition),
        )
        for topic in described.topics
        for partition in topic.partitions
    ]  # fmt: skip
    if rows or options.output != "table":
        as_json = [_json(topic, described) for topic in described.topics]
        show(options.output, Table(_COLUMNS, rows), as_json)
    if options.output == "table":
        for topic in described.topics:
            configs = described.configs.get(topic.name, {})
            settings = "".join(f"; {name}={value}" for name, value in configs.items())
            print_message(f"topic {topic.name} has the id {topic.id}{settings}")


def _numbers(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))


def _json(topic: TopicMetadata, described: Described) -> dict[str, object]:
    return {
        "topic": topic.name,
        "id": None if topic.id is None else str(topic.id),
        "internal": topic.is_internal,
        "configs": described.configs.get(topic.name),
        "partitions": [
            _partition_json(topic.name, partition, described) for partition in topic.partitions
        ],
    }


def _partition_json(
    topic: str, partition: PartitionMetadata, described: Described
) -> dict[str, object]:
    start, end, size = described.of(topic, partition)
    return {
        "partition": partition.index,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "start_offset": start,
        "end_offset": end,
        "bytes": size,
    }
