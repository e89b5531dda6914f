"""Topics with records in them, for readers: made over our own client, batch by batch."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kohort.client.admin import Admin, ConfigResource
from kohort.client.backoff import retrying
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.offsets import LATEST, list_offsets
from kohort.client.config import ClientConfig
from kohort.client.net.connection import Connection
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode, KafkaError, unless_error
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.types import GroupId, TopicPartition

NOW = 1_700_000_000_000
WAIT_MS = 10_000
"""Time limit of a produce request, whose partition may have replicas."""
NOT_SERVED_YET = (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition)
"""What Apache Kafka answers for a partition that is new, or after a restart."""


class Topics:
    """One server's topics."""

    def __init__(self, address: str) -> None:
        self.address = address

    def create(self, name: str, partitions: int = 1) -> None:
        """Back when each partition takes requests: Apache Kafka answers a little before."""

        async def ask(cluster: Cluster) -> None:
            await Admin(cluster).create_topic(name, partitions=partitions)
            await list_offsets(
                cluster, {TopicPartition(name, each): LATEST for each in range(partitions)}
            )

        self._run(ask)

    def configure(self, name: str, **configs: str) -> None:
        """Set configs of a topic; their dots are underscores."""
        given = {config.replace("_", "."): value for config, value in configs.items()}
        resource = ConfigResource("topic", name)
        self._run(lambda cluster: Admin(cluster).alter_configs(resource, given))

    def delete(self, name: str) -> None:
        self._run(lambda cluster: Admin(cluster).delete_topic(name))

    def grow(self, name: str, partitions: int) -> None:
        self._run(lambda cluster: Admin(cluster).create_partitions(name, partitions))

    def trim(self, name: str, partition: int, offset: int) -> None:
        """Delete the records before `offset`."""

        topic = {"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}

        async def send(connection: Connection) -> Any:
            answer = await connection.send("delete_records", topics=[topic])
            return answer.topics[0].partitions[0]

        self._run(lambda cluster: _ask_leader(cluster, TopicPartition(name, partition), send))

    def append(self, name: str, partition: int, *produced: bytes) -> None:
        """Record batches, as they are."""

        async def send(batch: bytes, connection: Connection) -> Any:
            data = [{"name": name, "partition_data": [{"index": partition, "records": batch}]}]
            answer = await connection.send(
                "produce", max_version=9, acks=-1, timeout=WAIT_MS, topic_data=data
            )
            return answer.responses[0].partition_responses[0]

        async def ask(cluster: Cluster) -> None:
            for batch in produced:
                await _ask_leader(cluster, TopicPartition(name, partition), partial(send, batch))

        self._run(ask)

    def fill(self, name: str, values: Mapping[int, Sequence[bytes]], **options: object) -> None:
        """Records with these values, one batch for each partition, keys k0, k1…"""
        for partition, content in values.items():
            records = [Record(b"k%d" % at, value, (), NOW + at) for at, value in enumerate(content)]
            if records:
                self.append(name, partition, batches.build(records, **options))

    def committed(self, group: str, *, stable: bool = False) -> dict[str, dict[int, int]]:
        """The group's committed offsets; `stable` waits for those of transactions: Apache Kafka
        responds to EndTxn before the group has them.
        """

        async def ask(cluster: Cluster) -> Any:
            admin = Admin(cluster)
            return await retrying(
                lambda: _committed(admin, GroupId(group), stable=stable),
                operation=f"offsets of {group}",
                timeout_ms=60_000,
                backoff=cluster.backoff(),
            )

        found: dict[str, dict[int, int]] = {}
        for tp, offset in sorted(self._run(ask).items()):
            found.setdefault(tp.topic, {})[tp.partition] = offset.offset
        return found

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Move a group without members."""
        wanted = {
            TopicPartition(topic, each): OffsetAndMetadata(offset=at)
            for each, at in offsets.items()
        }
        outcomes = self._run(lambda cluster: Admin(cluster).commit(GroupId(group), wanted))
        assert set(outcomes.values()) == {None}, outcomes

    def delete_group(self, group: str) -> None:
        """Delete a group without members, with its offsets."""
        wanted = GroupId(group)
        outcomes = self._run(lambda cluster: Admin(cluster).delete_groups([wanted]))
        assert outcomes == {wanted: None}, outcomes

    def members(self, group: str) -> list[tuple[TopicPartition, ...]]:
        """What each member of the group is assigned."""
        told = self._run(lambda cluster: Admin(cluster).describe_groups([GroupId(group)]))[
            GroupId(group)
        ]
        return [member.assignment for member in told.members]

    def _run(self, ask):
        async def work():
            async with Cluster(ClientConfig(bootstrap=self.address)) as cluster:
                return await ask(cluster)

        return asyncio.run(work())


async def _committed(admin: Admin, group: GroupId, *, stable: bool) -> Any:
    return unless_error((await admin.committed([group], require_stable=stable))[group])


async def _ask_leader(
    cluster: Cluster, tp: TopicPartition, send: Callable[[Connection], Awaitable[Any]]
) -> None:
    """Send until the leader serves the partition, for a minute at most.

    `send` returns the partition's part of the response.
    """

    async def attempt() -> None:
        leader = await cluster.leader(tp)
        answer = await send(await cluster.connection(leader.node_id))
        if answer.error_code in NOT_SERVED_YET:
            raise KafkaError(answer.error_code, str(tp))
        assert not answer.error_code, answer

    await retrying(
        attempt,
        operation=f"request for {tp}",
        timeout_ms=60_000,
        backoff=cluster.backoff(),
        retriable=lambda error: isinstance(error, KafkaError) and error.code in NOT_SERVED_YET,
    )
