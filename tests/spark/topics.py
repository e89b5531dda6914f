"""Topics with records in them, for readers: made over our own client, batch by batch."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.types import TopicPartition

NOW = 1_700_000_000_000


class Topics:
    """One server's topics."""

    def __init__(self, address: str) -> None:
        self.address = address

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        async def ask(cluster: Cluster) -> None:
            topic = {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
            }
            connection = await cluster.any_connection()
            answer = await connection.send("create_topics", topics=[topic])
            assert not answer.topics[0].error_code, answer

        self._run(ask)

    def delete(self, name: str) -> None:
        async def ask(cluster: Cluster) -> None:
            connection = await cluster.any_connection()
            answer = await connection.send("delete_topics", max_version=5, topic_names=[name])
            assert not answer.responses[0].error_code, answer

        self._run(ask)

    def grow(self, name: str, partitions: int) -> None:
        async def ask(cluster: Cluster) -> None:
            topic = {"name": name, "count": partitions, "assignments": None}
            answer = await (await cluster.any_connection()).send(
                "create_partitions", topics=[topic], validate_only=False
            )
            assert not answer.results[0].error_code, answer

        self._run(ask)

    def trim(self, name: str, partition: int, offset: int) -> None:
        """Delete the records before `offset`."""

        async def ask(cluster: Cluster) -> None:
            topic = {"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}
            leader = await cluster.leader(TopicPartition(name, partition))
            answer = await (await cluster.connection(leader.node_id)).send("delete_records", topics=[topic])
            assert not answer.topics[0].partitions[0].error_code, answer

        self._run(ask)

    def append(self, name: str, partition: int, *produced: bytes) -> None:
        """Record batches, as they are."""

        async def ask(cluster: Cluster) -> None:
            leader = await cluster.leader(TopicPartition(name, partition))
            connection = await cluster.connection(leader.node_id)
            for batch in produced:
                data = [{"name": name, "partition_data": [{"index": partition, "records": batch}]}]
                answer = await connection.send("produce", max_version=9, acks=-1, topic_data=data)
                assert not answer.responses[0].partition_responses[0].error_code, answer

        self._run(ask)

    def fill(self, name: str, values: Mapping[int, Sequence[bytes]], **options: object) -> None:
        """Records with these values, one batch for each partition, keys k0, k1…"""
        for partition, content in values.items():
            records = [Record(b"k%d" % at, value, (), NOW + at) for at, value in enumerate(content)]
            if records:
                self.append(name, partition, batches.build(records, **options))

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        """The group's committed offsets."""

        async def ask(cluster: Cluster) -> dict[str, dict[int, int]]:
            connection = await cluster.coordinator(group)
            answer = await connection.send(
                "offset_fetch", max_version=7, group_id=group, topics=None, require_stable=False
            )
            found: defaultdict[str, dict[int, int]] = defaultdict(dict)
            for topic in answer.topics:
                for each in topic.partitions:
                    found[topic.name][each.partition_index] = each.committed_offset
            return dict(found)

        return self._run(ask)

    def _run(self, ask):
        async def work():
            async with Cluster(ClientConfig(bootstrap=self.address)) as cluster:
                return await ask(cluster)

        return asyncio.run(work())
