"""Whether an offset still means the records that it meant (KIP-320).

An offset is read together with the epoch of its leader. After a change of leaders the new one is
asked where that epoch ended in its log (Kafka's OffsetForLeaderEpoch API, v2-v4): if that is before
our offset, records that we have read are gone.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from kohort.client.cluster import NO_EPOCH, Cluster, Leader
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

UNDEFINED: int = -1


class ReadPosition(NamedTuple):
    """What was read of a partition."""

    leader: Leader
    epoch: int
    """Of the last record."""


async def end_offsets(
    cluster: Cluster, node_id: int, read: Mapping[TopicPartition, ReadPosition]
) -> dict[TopicPartition, int | KafkaError]:
    """Where, in its leader's log, each partition's epoch ends; -1 if the leader does not know the
    epoch.

    Empty if the broker cannot tell. Raises BrokerUnreachableError.
    """
    connection = await cluster.connection(node_id)
    # A consumer without permissions on the cluster may ask since v3.
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
        TopicPartition(topic.topic, each.partition): _outcome(topic.topic, each)
        for topic in response.topics
        for each in topic.partitions
    }


def _outcome(topic: str, told: Any) -> int | KafkaError:
    if told.error_code is not ErrorCode.none:
        return KafkaError(told.error_code, f"{topic}-{told.partition}")
    return UNDEFINED if told.leader_epoch == NO_EPOCH else int(told.end_offset)
