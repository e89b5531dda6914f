"""OffsetFetch over the wire, in every version."""

from typing import Any

import pytest

from kohort.coordinator import requests as asked
from kohort.coordinator import responses as answered
from kohort.errors import ErrorCode
from kohort.types import TopicPartition
from server.net.bench import TOPIC_ID, Wire
from server.net.group_requests import OTHER_ID, codes, versions


def fetched(request: asked.OffsetFetch) -> answered.OffsetFetchResponse:
    """Offset 10 * partition for everything; "orders" and a deleted topic are what was committed."""
    partitions = request.partitions
    if partitions is None:
        partitions = (
            TopicPartition("orders", 0),
            TopicPartition("deleted", 1),
            TopicPartition("orders", 2),
        )
    return answered.OffsetFetchResponse(
        offsets=tuple(
            answered.FetchedOffset(topic, partition, 10 * partition, 4, "meta")
            for topic, partition in partitions
        )
    )


def ask_for(version: int, *groups: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """The fields of an OffsetFetch about (group, topics)."""
    if version >= 8:
        return {
            "groups": [{"group_id": group, "topics": topics} for group, topics in groups],
            **more,
        }
    return {"group_id": groups[0][0], "topics": groups[0][1], **more}


def group_of(answer: Any) -> Any:
    return answer.groups[0] if hasattr(answer, "groups") else answer


@versions("offset_fetch")
async def test_offset_fetch_is_decoded_and_answered_in_every_version(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetFetch] = fetched
        topics = [
            {"name": "nope", "topic_id": OTHER_ID, "partition_indexes": [0]},
            {"name": "orders", "topic_id": TOPIC_ID, "partition_indexes": [2, 9]},
            {"name": "orders", "topic_id": TOPIC_ID, "partition_indexes": [1]},
        ]
        answer = group_of(
            await (await wire.peer()).ask(
                "offset_fetch", version, **ask_for(version, ("g", topics), require_stable=True)
            )
        )
        request = wire.groups.submitted[0]
        assert (request.group, request.require_stable) == ("g", version >= 7)
        by_name = [TopicPartition("orders", index) for index in (2, 9, 1)]
        if version >= 10:
            assert request.partitions == tuple(by_name)
            expected = [(TOPIC_ID, [(2, 0), (9, 0)]), (TOPIC_ID, [(1, 0)]), (OTHER_ID, [(0, 100)])]
        else:
            assert request.partitions == (TopicPartition("nope", 0), *by_name)
            expected = [("nope", [(0, 0)]), ("orders", [(2, 0), (9, 0)]), ("orders", [(1, 0)])]
        assert codes(answer.topics) == expected
        partition = answer.topics[0 if version >= 10 else 1].partitions[0]
        assert (partition.committed_offset, partition.metadata) == (20, "meta")
        assert getattr(partition, "committed_leader_epoch", 4) == 4
        if version >= 10:
            refused = answer.topics[2].partitions[0]
            assert (refused.committed_offset, refused.committed_leader_epoch, refused.metadata) == (
                -1,
                -1,
                "",
            )


@pytest.mark.parametrize("version", range(2, 11))
async def test_offset_fetch_of_all_topics(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetFetch] = fetched
        answer = group_of(
            await (await wire.peer()).ask("offset_fetch", version, **ask_for(version, ("g", None)))
        )
        assert wire.groups.submitted[0].partitions is None
        if version >= 10:  # a topic without an id cannot be shown
            assert codes(answer.topics) == [(TOPIC_ID, [(0, 0), (2, 0)])]
        else:
            assert codes(answer.topics) == [("orders", [(0, 0), (2, 0)]), ("deleted", [(1, 0)])]


@versions("offset_fetch")
async def test_offset_fetch_of_no_topics(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetFetch] = fetched
        answer = group_of(
            await (await wire.peer()).ask("offset_fetch", version, **ask_for(version, ("g", [])))
        )
        assert wire.groups.submitted[0].partitions == ()
        assert answer.topics == ()


@versions("offset_fetch")
async def test_an_error_of_the_whole_group_stands_where_the_version_has_it(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetFetch] = answered.OffsetFetchResponse(
            error=ErrorCode.coordinator_load_in_progress
        )
        topics = [{"name": "orders", "topic_id": TOPIC_ID, "partition_indexes": [0, 1]}]
        answer = await (await wire.peer()).ask(
            "offset_fetch", version, **ask_for(version, ("g", topics))
        )
        if version == 1:
            assert codes(answer.topics) == [("orders", [(0, 14), (1, 14)])]
            assert answer.topics[0].partitions[0].committed_offset == -1
        else:
            assert group_of(answer).error_code == 14
            named = [("orders", [(0, 14), (1, 14)])] if version < 8 else []
            assert codes(group_of(answer).topics) == named


async def test_offset_fetch_of_many_groups_is_answered_once_in_the_order_asked() -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        peer.send(
            peer.request("offset_fetch", 8, **ask_for(8, ("a", None), ("b", []), ("a", None)))
        )
        for count, error in enumerate((None, ErrorCode.not_coordinator, None), 1):
            assert await peer.is_silent()
            await wire.until(lambda: len(wire.groups.parked) == count)  # noqa: B023
            request = wire.groups.parked[-1]
            refused = answered.OffsetFetchResponse(error=error or ErrorCode.none)
            request.on_response(refused if error else fetched(request))
        answer = await peer.answer("offset_fetch", 8)
        assert [
            (group.group_id, group.error_code, len(group.topics)) for group in answer.groups
        ] == [
            ("a", 0, 2),
            ("b", 16, 0),
            ("a", 0, 2),
        ]


async def test_offset_fetch_of_no_groups() -> None:
    async with Wire() as wire:
        assert (await (await wire.peer()).ask("offset_fetch", 8, groups=[])).groups == ()
