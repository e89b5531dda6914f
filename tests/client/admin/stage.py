"""What admin tests need: records in partitions, members of groups, commits; over raw requests."""

from dataclasses import dataclass

from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode
from kohort.protocol.batch_writing import build
from kohort.protocol.records import Record
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.server.broker import Broker
from kohort.types import GroupId, Timestamp, TopicPartition

BEGINNING = 1_769_860_800_000
"""Timestamp of the first record of each partition: 2026-01-31T12:00:00Z; each further one is a
second younger.
"""


def fill(broker: Broker, topic: str, *counts: int) -> None:
    """Append so many records to the partitions, in order."""
    for partition, count in enumerate(counts):
        log = broker.topics.log(topic, partition)
        assert log is not None
        for number in range(count):
            at = Timestamp(BEGINNING + 1_000 * number)
            log.append(build([Record(None, b"%d" % number, timestamp=at)]), at)


def at(offset: int, metadata: str = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset=offset, metadata=metadata)


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


async def commit(admin: Admin, group: str, **offsets: int) -> None:
    """`orders_0=5` commits 5 for partition 0 of orders."""
    wanted = {}
    for name, offset in offsets.items():
        topic, _, partition = name.rpartition("_")
        wanted[TopicPartition(topic, int(partition))] = at(offset)
    outcomes = await admin.commit(GroupId(group), wanted)
    assert set(outcomes.values()) == {None}


@dataclass
class Joined:
    """One member, alone in its group, with all that it wants."""

    cluster: Cluster
    group: str
    member_id: str

    async def leave(self) -> None:
        connection = await self.cluster.coordinator(self.group, "member")
        members = [{"member_id": self.member_id, "group_instance_id": None}]
        await connection.send("leave_group", group_id=self.group, members=members)


async def consumer_heartbeat(
    cluster: Cluster,
    group: str,
    member_id: str,
    epoch: int,
    *,
    topics: list[str] | None = None,
    regex: str | None = None,
) -> None:
    """Of a member of the consumer protocol: it joins with epoch 0, and leaves with -1."""
    connection = await cluster.coordinator(group, "member")
    joined = await connection.send(
        "consumer_group_heartbeat",
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout=30_000,
        subscribed_topic_names=topics,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )
    assert joined.error_code is ErrorCode.none


async def join(
    cluster: Cluster,
    group: str,
    partitions: dict[str, list[int]],
    *,
    instance_id: str | None = None,
    assignment: bytes | None = None,
) -> Joined:
    """A member of a stable group, assigned these partitions (or these bytes)."""
    connection = await cluster.coordinator(group, "member")
    subscription = encode_subscription(Subscription(topics=tuple(partitions), rack="r1"))
    member_id = ""
    while True:
        joined = await connection.send(
            "join_group",
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": subscription}],
        )
        member_id = joined.member_id
        if joined.error_code is not ErrorCode.member_id_required:
            break
    assert joined.error_code is ErrorCode.none
    owned = tuple(
        TopicPartition(topic, index) for topic, indexes in partitions.items() for index in indexes
    )
    given = encode_assignment(Assignment(partitions=owned)) if assignment is None else assignment
    synced = await connection.send(
        "sync_group",
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member_id, "assignment": given}],
    )
    assert synced.error_code is ErrorCode.none
    return Joined(cluster, group, member_id)
