"""What a bystander sees: topics made, committed offsets, end offsets and records, through
kafka-python.

In the process of the test runs pure Python only: librdkafka 2.16 aborts the whole process when an
OffsetFetch of its admin client meets a coordinator that has just gone.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from interop.processes import PATIENCE_S


class Observer:
    """Each question comes by a connection of its own, and is put again while the server is away."""

    def __init__(self, address: str) -> None:
        self._address = address

    def create_topic(self, topic: str, partitions: int) -> None:
        """Back when each partition takes requests: Apache Kafka shows a topic a little before it
        takes records.
        """
        wanted = {topic: {"num_partitions": partitions, "replication_factor": 1}}
        self._ask(lambda admin: admin.create_topics(wanted))
        self.ends(topic, partitions)

    def committed(self, group: str) -> dict[str, int]:
        """The committed offset of each partition that has one."""
        offsets = self._ask(lambda admin: admin.list_group_offsets(group))[group]
        return {_name(at): known.offset for at, known in offsets.items() if known.offset >= 0}

    def groups_of_type(self, type_: str) -> set[str]:
        """The ids of the groups of a type: classic or consumer."""
        found = self._ask(lambda admin: admin.list_groups(types_filter=[type_]))
        return {group["group_id"] for group in found}

    def ends(self, topic: str, partitions: int) -> dict[str, int]:
        """The end offset of each partition that has records."""
        latest = {TopicPartition(topic, number): OffsetSpec.LATEST for number in range(partitions)}
        offsets = self._ask(lambda admin: admin.list_partition_offsets(latest))
        return {_name(at): known.offset for at, known in offsets.items() if known.offset}

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self._ask(lambda admin: admin.list_topics()))

    def records(
        self, topic: str, partitions: int, isolation: str = "read_uncommitted"
    ) -> list[tuple[str, str]]:
        """Keys and values of all records, in the order of each partition; with `read_committed`
        no transaction may be open.
        """
        ends = self.ends(topic, partitions)
        consumer = KafkaConsumer(bootstrap_servers=self._address, isolation_level=isolation)
        try:
            assigned = [TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(assigned)
            consumer.seek_to_beginning()
            found: list[tuple[str, str]] = []
            while any(consumer.position(at) < ends.get(_name(at), 0) for at in assigned):
                fetched = itertools.chain(*consumer.poll(500).values())
                found.extend((_text(each.key), _text(each.value)) for each in fetched)
            return found
        finally:
            consumer.close()

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._ask_once(question)
            except KafkaError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _ask_once(self, question: Callable[[Any], Any]) -> Any:
        admin = KafkaAdminClient(
            bootstrap_servers=self._address, bootstrap_timeout_ms=10_000, request_timeout_ms=20_000
        )
        try:
            return question(admin)
        finally:
            admin.close()


def _text(data: bytes | None) -> str:
    return (data or b"").decode()


def _name(at: TopicPartition) -> str:
    return f"{at.topic}-{at.partition}"
