"""OffsetCommit over the wire, in every version."""

from kohort.coordinator import requests as asked
from kohort.coordinator import responses as answered
from kohort.errors import ErrorCode
from kohort.types import TopicPartition
from server.net.bench import TOPIC_ID, Wire
from server.net.group_requests import OTHER_ID, codes, to_commit, versions


def all_committed(request: asked.OffsetCommit) -> answered.OffsetCommitResponse:
    return answered.OffsetCommitResponse(
        tuple(
            (TopicPartition(each.topic, each.partition), ErrorCode.none) for each in request.offsets
        )
    )


@versions("offset_commit")
async def test_offset_commit_is_decoded_and_answered_in_every_version(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetCommit] = all_committed
        offsets = [
            to_commit(0, 10, committed_leader_epoch=3, committed_metadata="x"),
            to_commit(2, -5, committed_metadata=None),
        ]
        answer = await (await wire.peer()).ask(
            "offset_commit",
            version,
            group_id="g",
            generation_id_or_member_epoch=4,
            member_id="m",
            group_instance_id="i",
            retention_time_ms=60_000,
            topics=[{"name": "orders", "topic_id": TOPIC_ID, "partitions": offsets}],
        )
        named = TOPIC_ID if version >= 10 else "orders"
        assert codes(answer.topics) == [(named, [(0, 0), (2, 0)])]
        request = wire.groups.submitted[0]
        assert (request.version, request.group, request.generation, request.member_id) == (
            version,
            "g",
            4,
            "m",
        )
        assert request.instance_id == ("i" if version >= 7 else None)
        assert request.retention_ms == (60_000 if version <= 4 else -1)
        assert request.offsets == (
            asked.OffsetToCommit("orders", 0, 10, 3 if version >= 6 else -1, "x", TOPIC_ID),
            asked.OffsetToCommit("orders", 2, -5, -1, None, TOPIC_ID),
        )


@versions("offset_commit")
async def test_offset_commit_refuses_what_does_not_exist(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetCommit] = all_committed
        answer = await (await wire.peer()).ask(
            "offset_commit",
            version,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                {
                    "name": "nope",
                    "topic_id": OTHER_ID,
                    "partitions": [to_commit(0, 1), to_commit(1, 1)],
                },
                {
                    "name": "orders",
                    "topic_id": TOPIC_ID,
                    "partitions": [to_commit(p, 1) for p in (7, 0, -1, 2)],
                },
                {"name": "orders", "topic_id": TOPIC_ID, "partitions": [to_commit(1, 1)]},
                {"name": "also not", "topic_id": None, "partitions": [to_commit(0, 1)]},
            ],
        )
        unknown = 100 if version >= 10 else 3
        names = (OTHER_ID, TOPIC_ID, None) if version >= 10 else ("nope", "orders", "also not")
        assert codes(answer.topics) == [  # refused ones first, an entry per topic: as Kafka 4.4
            (names[0], [(0, unknown), (1, unknown)]),
            (names[1], [(7, 3), (-1, 3), (0, 0), (2, 0), (1, 0)]),
            (names[2], [(0, unknown)]),
        ]
        assert [each.partition for each in wire.groups.submitted[0].offsets] == [0, 2, 1]


@versions("offset_commit")
async def test_the_coordinator_is_not_asked_when_nothing_is_left(version: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        group = {"group_id": "g", "generation_id_or_member_epoch": 9, "member_id": "x"}
        assert (await peer.ask("offset_commit", version, **group, topics=[])).topics == ()
        topics = [
            {"name": "orders", "topic_id": TOPIC_ID, "partitions": []},
            {"name": "nope", "topic_id": OTHER_ID, "partitions": []},
        ]
        answer = await peer.ask("offset_commit", version, **group, topics=topics)
        assert codes(answer.topics) == [(OTHER_ID if version >= 10 else "nope", [])]
        assert wire.groups.submitted == []


async def test_without_refusals_the_answer_has_an_entry_per_entry() -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetCommit] = all_committed
        topics = [{"name": "orders", "partitions": [to_commit(0, 1)]}] * 2
        answer = await (await wire.peer()).ask(
            "offset_commit",
            8,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=topics,
        )
        assert codes(answer.topics) == [("orders", [(0, 0)])] * 2
