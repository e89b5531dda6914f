"""Checks with the leader whether an offset still refers to the same records (KIP-320).

Each batch has the epoch of its leader. After a change of leaders the new one returns the end offset
of the last read epoch in its log (OffsetForLeaderEpoch, v3-v4). If that is before the fetch offset,
records that were read are no longer in the log.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from kohort.client.cluster import NO_EPOCH, Cluster, Leader
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

UNDEFINED: int = -1


class ReadPosition(NamedTuple):
    """The leader of a partition, and the last read leader epoch."""

    leader: Leader
    epoch: int
    """Leader epoch of the last record that was read."""


async def end_offsets(
    cluster: Cluster, node_id: int, read: Mapping[TopicPartition, ReadPosition]
) -> dict[TopicPartition, int | KafkaError]:
    """End offset of each partition's epoch in its leader's log; -1 for an unknown epoch.

    Empty if the broker is too old for the request. Raises BrokerUnreachableError.
    """
    connection = await cluster.connection(node_id)
    # Since v3 a consumer needs no permission on the cluster for this.
    if (connection.version("offset_for_leader_epoch") or 0) < 3:
        return {}
    topics: defaultdict[str, list[dict[str, int]]] = defaultdict(list)
    for tp, (leader, epoch) in read.items():
        entry = {
            "partition": tp.partition,
            "current_leader_epoch": leader.epoch,
            "leader_epoch": epoch,
        }
        topics[tp.topic].append(entry)
    response = await connection.send(
        "offset_for_leader_epoch",
        min_version=3,
        replica_id=-1,
        topics=[{"topic": name, "partitions": entries} for name, entries in topics.items()],
    )
    return {
        TopicPartition(topic.topic, partition.partition): _outcome(topic.topic, partition)
        for topic in response.topics
        for partition in topic.partitions
    }


def _outcome(topic: str, response: Any) -> int | KafkaError:
    if response.error_code is not ErrorCode.none:
        return KafkaError(response.error_code, f"{topic}-{response.partition}")
    return UNDEFINED if response.leader_epoch == NO_EPOCH else int(response.end_offset)
