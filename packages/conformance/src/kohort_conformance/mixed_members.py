"""Members of the classic protocol in consumer groups, as scenarios play them."""

from __future__ import annotations

import struct
from typing import Any

from kohort_conformance.consumers import PlayedConsumer, named_topic, settle, settled
from kohort_conformance.members import (
    PlayedMember,
    assignment,
    gather_round,
    member,
    protocols,
    subscription,
)
from kohort_conformance.stage import SetUpError, Stage


def names(*topics: str) -> bytes:
    """A subscription of version 3 without owned partitions."""
    return subscription(*topics, version=3)


def owning(topic: str, *partitions: int, version: int = 1) -> bytes:
    """A subscription with owned partitions of its one topic."""
    start = subscription(topic, version=0)
    listed = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    encoded = topic.encode()
    body = struct.pack(">h", version) + start[2:] + struct.pack(">ih", 1, len(encoded)) + encoded
    return body + listed + (struct.pack(">i", -1) if version >= 2 else b"")


async def classic_member(stage: Stage, client_id: str, topic: str, **values: Any) -> PlayedMember:
    """A member to be of the classic protocol with an id of its own, as consumer groups take it."""
    values.setdefault("id", f"{client_id}-id")
    values.setdefault("protocols", protocols("range", metadata=names(topic)))
    return await member(stage, client_id, **values)


async def classic_group(stage: Stage, topic: str, *partitions: int, **values: Any) -> PlayedMember:
    """A Stable classic group of one member that has these partitions of a topic."""
    values.setdefault("protocols", protocols("range", metadata=names(topic)))
    a = await member(stage, "a", **values)
    await gather_round([a])
    await synced(a, {a.id: assignment(topic, *partitions)})
    return a


async def synced(one: PlayedMember, assignments: dict[str, bytes] | None = None) -> None:
    """SyncGroup, unrecorded, that must succeed."""
    told = await one.syncing(assignments=assignments).quiet()
    if told["error_code"] != "NONE (0)":
        raise SetUpError(f"SyncGroup: {told['error_code']}")


async def rejoined(one: PlayedMember) -> None:
    """JoinGroup and SyncGroup, unrecorded."""
    told = await one.joining().quiet()
    if told["error_code"] != "NONE (0)":
        raise SetUpError(f"JoinGroup: {told['error_code']}")
    await synced(one)


async def mixed(
    stage: Stage, partitions: int = 4, **values: Any
) -> tuple[PlayedConsumer, PlayedMember, str]:
    """A consumer group of a consumer a and a classic member b, who have half of a topic each."""
    topic = await named_topic(stage, partitions=partitions)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic, **values)
    await rejoined(b)
    await settle([a])
    await rejoined(b)
    return a, b, topic


async def note_assignment(one: PlayedMember) -> None:
    """SyncGroup, recorded as topics and partitions, whose order is that of a hash map in Kafka."""
    told = await one.syncing().quiet()
    data = bytes.fromhex(told["assignment"])
    found, at = {}, 6
    for _ in range(int.from_bytes(data[2:6], "big")):
        size, at = int.from_bytes(data[at : at + 2], "big"), at + 2
        topic, at = data[at : at + size].decode(), at + size
        count, at = int.from_bytes(data[at : at + 4], "big"), at + 4
        found[topic.removesuffix(one.stage.suffix)] = sorted(
            struct.unpack_from(f">{count}i", data, at)
        )
        at += 4 * count
    one.stage.note(f"{one.client.client_id}: assignment", found)
