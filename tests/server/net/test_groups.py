"""The group APIs over the wire, in every version: what the core is asked, and what the client is
answered.
"""

import asyncio
import uuid
from typing import Any

import pytest

from kohort.coordinator import requests as asked
from kohort.coordinator import responses as answered
from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS, BY_NAME
from kohort.types import TopicPartition
from server.net.bench import TOPIC_ID, Peer, Wire

OTHER_ID = uuid.UUID(int=7)


def versions(api: str) -> pytest.MarkDecorator:
    served = BY_NAME[api]
    return pytest.mark.parametrize("version", range(served.min_version, served.max_version + 1))


async def submitted(wire: Wire, peer: Peer, api: str, version: int, /, **fields: Any) -> Any:
    """The one request that the core gets."""
    before = len(wire.groups.submitted)
    peer.send(peer.request(api, version, **fields))
    await wire.until(lambda: len(wire.groups.submitted) > before)
    assert len(wire.groups.submitted) == before + 1
    return wire.groups.submitted[-1]


# JoinGroup


@versions("join_group")
async def test_join_group(version: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        request = await submitted(
            wire,
            peer,
            "join_group",
            version,
            group_id="g",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=300_000,
            member_id="m-1",
            group_instance_id="i",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\1"}, {"name": "sticky", "metadata": b""}],
            reason="rolling restart",
        )
        assert isinstance(request, asked.JoinGroup)
        assert (request.version, request.group, request.member_id) == (version, "g", "m-1")
        assert (request.client_id, request.client_host) == ("test", "/127.0.0.1")
        assert request.session_timeout_ms == 6_000
        assert request.rebalance_timeout_ms == (300_000 if version >= 1 else 6_000)
        assert request.instance_id == ("i" if version >= 5 else None)
        assert request.protocol_type == "consumer"
        assert request.protocols == (("range", b"\0\1"), ("sticky", b""))
        assert request.reason == ("rolling restart" if version >= 8 else None)
        assert request.fresh_id == ""
        assert hash(request.connection) is not None
        request.on_response(
            answered.JoinGroupResponse(
                generation=5,
                protocol_type="consumer",
                protocol_name="range",
                leader="m-1",
                skip_assignment=True,
                member_id="m-1",
                members=(
                    answered.JoinedMember(member_id="m-1", instance_id="i", metadata=b"\0\1"),
                ),
            )
        )
        answer = await peer.answer("join_group", version)
        assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 5, "range")
        assert (answer.leader, answer.member_id) == ("m-1", "m-1")
        assert getattr(answer, "protocol_type", "consumer") == "consumer"
        assert getattr(answer, "skip_assignment", True) is True
        assert [(member.member_id, member.metadata) for member in answer.members] == [
            ("m-1", b"\0\1")
        ]
        assert getattr(answer.members[0], "group_instance_id", "i") == "i"


@versions("join_group")
async def test_join_group_refused(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.JoinGroup] = answered.JoinGroupResponse(
            error=ErrorCode.member_id_required, member_id="test-1"
        )
        peer = await wire.peer()
        answer = await peer.ask(
            "join_group",
            version,
            group_id="g",
            session_timeout_ms=6_000,
            member_id="",
            protocol_type="c",
            protocols=[],
        )
        assert (answer.error_code, answer.generation_id, answer.member_id, answer.members) == (
            79,
            -1,
            "test-1",
            (),
        )
        assert answer.protocol_name == (None if version >= 7 else "")
        assert getattr(answer, "protocol_type", None) is None


async def test_every_join_gets_its_own_fresh_id() -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.JoinGroup] = answered.JoinGroupResponse()
        peer = await wire.peer()
        for _ in range(2):
            await peer.ask(
                "join_group",
                4,
                group_id="g",
                session_timeout_ms=1,
                member_id="",
                protocol_type="",
                protocols=[],
            )
        first, second = wire.groups.submitted
        assert first.fresh_id != second.fresh_id
        assert [str(uuid.UUID(each.fresh_id)) for each in (first, second)] == [
            first.fresh_id,
            second.fresh_id,
        ]
        assert first.connection is second.connection


# SyncGroup, Heartbeat, LeaveGroup


@versions("sync_group")
async def test_sync_group(version: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        request = await submitted(
            wire,
            peer,
            "sync_group",
            version,
            group_id="g",
            generation_id=5,
            member_id="m",
            group_instance_id="i",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": "m", "assignment": b"all"}],
        )
        assert isinstance(request, asked.SyncGroup)
        assert (request.version, request.group, request.generation, request.member_id) == (
            version,
            "g",
            5,
            "m",
        )
        assert request.instance_id == ("i" if version >= 3 else None)
        assert (request.protocol_type, request.protocol_name) == (
            ("consumer", "range") if version >= 5 else (None, None)
        )
        assert request.assignments == (("m", b"all"),)
        request.on_response(
            answered.SyncGroupResponse(
                protocol_type="consumer", protocol_name="range", assignment=b"all"
            )
        )
        answer = await peer.answer("sync_group", version)
        assert (answer.error_code, answer.assignment) == (0, b"all")
        assert getattr(answer, "protocol_name", "range") == "range"


@versions("heartbeat")
async def test_heartbeat(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.Heartbeat] = answered.HeartbeatResponse(
            ErrorCode.rebalance_in_progress
        )
        peer = await wire.peer()
        answer = await peer.ask(
            "heartbeat",
            version,
            group_id="g",
            generation_id=5,
            member_id="m",
            group_instance_id="i",
        )
        assert answer.error_code == 27
        request = wire.groups.submitted[0]
        assert (request.group, request.generation, request.member_id) == ("g", 5, "m")
        assert request.instance_id == ("i" if version >= 3 else None)


@versions("leave_group")
async def test_leave_group(version: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        members = [
            {"member_id": "m", "group_instance_id": "i", "reason": "done"},
            {"member_id": "", "group_instance_id": None},
        ]
        request = await submitted(
            wire,
            peer,
            "leave_group",
            version,
            group_id="g",
            **({"members": members} if version >= 3 else {"member_id": "m"}),
        )
        assert (request.version, request.group) == (version, "g")
        if version < 3:
            assert request.members == (asked.LeavingMember(member_id="m", instance_id=None),)
        else:
            reason = "done" if version >= 5 else None
            assert request.members == (
                asked.LeavingMember(member_id="m", instance_id="i", reason=reason),
                asked.LeavingMember(member_id="", instance_id=None),
            )
        request.on_response(
            answered.LeaveGroupResponse(
                members=(
                    answered.LeftMember("m", "i", ErrorCode.fenced_instance_id),
                    answered.LeftMember("", None, ErrorCode.none),
                )[: len(request.members)]
            )
        )
        answer = await peer.answer("leave_group", version)
        assert answer.error_code == (82 if version < 3 else 0)
        if version >= 3:
            left = [
                (member.member_id, member.group_instance_id, member.error_code)
                for member in answer.members
            ]
            assert left == [("m", "i", 82), ("", None, 0)]


@versions("leave_group")
async def test_leave_group_refused_as_a_whole(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.LeaveGroup] = answered.LeaveGroupResponse(
            error=ErrorCode.not_coordinator
        )
        answer = await (await wire.peer()).ask("leave_group", version, group_id="g")
        assert (answer.error_code, getattr(answer, "members", ())) == (16, ())


# OffsetCommit


def to_commit(partition: int, offset: int, **more: Any) -> dict[str, Any]:
    return {"partition_index": partition, "committed_offset": offset, **more}


def all_committed(request: asked.OffsetCommit) -> answered.OffsetCommitResponse:
    return answered.OffsetCommitResponse(
        tuple(
            (TopicPartition(each.topic, each.partition), ErrorCode.none) for each in request.offsets
        )
    )


def codes(topics: Any) -> list[tuple[Any, list[tuple[int, int]]]]:
    """(topic as the version names it, (partition, error)...)."""
    return [
        (
            each.name if hasattr(each, "name") else each.topic_id,
            [
                (partition.partition_index, int(partition.error_code))
                for partition in each.partitions
            ],
        )
        for each in topics
    ]


@versions("offset_commit")
async def test_offset_commit(version: int) -> None:
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
        assert codes(answer.topics) == [  # refused ones first, an entry per topic: as Kafka 4.3
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


# OffsetFetch


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
async def test_offset_fetch(version: int) -> None:
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


# DescribeGroups, ListGroups, DeleteGroups, OffsetDelete


def described(request: asked.DescribeGroup) -> answered.DescribeGroupResponse:
    if request.group != "g":
        error = ErrorCode.group_id_not_found if request.version >= 6 else ErrorCode.none
        message = f"Group {request.group} not found." if request.version >= 6 else None
        return answered.DescribeGroupResponse(
            error=error, error_message=message, group=request.group, state="Dead"
        )
    return answered.DescribeGroupResponse(
        group="g",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        members=(
            answered.DescribedMember(
                member_id="m",
                instance_id="i",
                client_id="c",
                client_host="/127.0.0.1",
                metadata=b"meta",
                assignment=b"assigned",
            ),
        ),
    )


@versions("describe_groups")
@pytest.mark.parametrize("with_operations", [False, True])
async def test_describe_groups(version: int, with_operations: bool) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.DescribeGroup] = described
        answer = await (await wire.peer()).ask(
            "describe_groups",
            version,
            groups=["g", "none", "g"],
            include_authorized_operations=with_operations,
        )
        assert [request.version for request in wire.groups.submitted] == [version] * 3
        there, none, again = answer.groups
        assert there == again
        assert (there.group_id, there.group_state, there.error_code) == ("g", "Stable", 0)
        assert (there.protocol_type, there.protocol_data) == ("consumer", "range")
        member = there.members[0]
        assert (member.member_id, member.client_id, member.client_host) == ("m", "c", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"meta", b"assigned")
        assert getattr(member, "group_instance_id", "i") == "i"
        assert (none.group_state, none.error_code) == ("Dead", 69 if version >= 6 else 0)
        if version >= 6:
            assert (there.error_message, none.error_message) == (None, "Group none not found.")
        # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: what Kafka 4.3 answers
        if version >= 3:
            assert there.authorized_operations == (3400 if with_operations else -(2**31))
            assert none.authorized_operations == (
                3400 if with_operations and version < 6 else -(2**31)
            )


@versions("list_groups")
async def test_list_groups(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.ListGroups] = answered.ListGroupsResponse(
            groups=(
                answered.ListedGroup("g", "consumer", "Stable"),
                answered.ListedGroup("", "", "Empty"),
            )
        )
        answer = await (await wire.peer()).ask(
            "list_groups", version, states_filter=["stable", "Empty"], types_filter=["Classic"]
        )
        request = wire.groups.submitted[0]
        assert request.states == (("stable", "Empty") if version >= 4 else ())
        assert request.types == (("Classic",) if version >= 5 else ())
        assert [(group.group_id, group.protocol_type) for group in answer.groups] == [
            ("g", "consumer"),
            ("", ""),
        ]
        assert getattr(answer.groups[0], "group_state", "Stable") == "Stable"
        assert getattr(answer.groups[0], "group_type", "classic") == "classic"


@versions("list_groups")
async def test_list_groups_while_loading(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.ListGroups] = answered.ListGroupsResponse(
            error=ErrorCode.coordinator_load_in_progress
        )
        answer = await (await wire.peer()).ask("list_groups", version)
        assert (answer.error_code, answer.groups) == (14, ())


@versions("delete_groups")
async def test_delete_groups(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.DeleteGroup] = lambda request: answered.DeleteGroupResponse(
            ErrorCode.none if request.group == "a" else ErrorCode.group_id_not_found
        )
        peer = await wire.peer()
        answer = await peer.ask("delete_groups", version, groups_names=["b", "a", "b", ""])
        assert [(result.group_id, result.error_code) for result in answer.results] == [
            ("b", 69),
            ("a", 0),
            ("", 69),
        ]
        assert (await peer.ask("delete_groups", version, groups_names=[])).results == ()


def indexes(*partitions: int) -> list[dict[str, int]]:
    return [{"partition_index": partition} for partition in partitions]


def all_deleted(request: asked.OffsetDelete) -> answered.OffsetDeleteResponse:
    return answered.OffsetDeleteResponse(
        results=tuple((each, ErrorCode.none) for each in request.partitions)
    )


async def test_offset_delete() -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetDelete] = all_deleted
        answer = await (await wire.peer()).ask(
            "offset_delete",
            0,
            group_id="g",
            topics=[
                {"name": "orders", "partitions": indexes(0, 9, 0)},
                {"name": "nope", "partitions": indexes(0)},
                {"name": "orders", "partitions": indexes(1)},
                {"name": "also not", "partitions": []},
            ],
        )
        assert wire.groups.submitted[0].partitions == tuple(
            TopicPartition("orders", index) for index in (0, 0, 1)
        )
        assert answer.error_code == 0
        assert codes(answer.topics) == [  # as Kafka 4.3
            ("orders", [(9, 3), (0, 0), (0, 0), (1, 0)]),
            ("nope", [(0, 3)]),
            ("also not", []),
        ]


async def test_an_error_of_the_whole_group_goes_before_partitions_that_do_not_exist() -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.OffsetDelete] = answered.OffsetDeleteResponse(
            error=ErrorCode.invalid_group_id
        )
        answer = await (await wire.peer()).ask(
            "offset_delete", 0, group_id="", topics=[{"name": "nope", "partitions": indexes(0)}]
        )
        assert (answer.error_code, answer.topics) == (24, ())


# FindCoordinator


@versions("find_coordinator")
@pytest.mark.parametrize("key_type", [0, 1])
async def test_find_coordinator_is_this_node(version: int, key_type: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        if version < 4:
            answer = await peer.ask("find_coordinator", version, key="", key_type=key_type)
            assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
                0,
                0,
                "broker.test",
                9092,
            )
            assert getattr(answer, "error_message", "NONE") == "NONE"
            return
        answer = await peer.ask(
            "find_coordinator", version, coordinator_keys=["g", "", "g"], key_type=key_type
        )
        found = [
            (each.key, each.error_code, each.node_id, each.host, each.port)
            for each in answer.coordinators
        ]
        assert found == [(key, 0, 0, "broker.test", 9092) for key in ("g", "", "g")]
        assert answer.coordinators[0].error_message == ""


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [2, 9, -1])
async def test_find_coordinator_of_a_type_that_the_version_does_not_know(
    version: int, key_type: int, caplog
) -> None:
    async with Wire() as wire:
        fields = {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}
        answer = await (await wire.peer()).ask(
            "find_coordinator", version, **fields, key_type=key_type
        )
        refused = answer if version < 4 else answer.coordinators[0]
        assert (refused.error_code, refused.node_id, refused.host, refused.port) == (42, -1, "", -1)
        # as Kafka words it
        assert bool(refused.error_message) is not (key_type == 2 and version in (4, 5))
        assert not caplog.records


async def test_find_coordinator_of_a_share_group() -> None:
    async with Wire() as wire:
        keys = ["g:AAAAAAAAQACAAAAAAAAAAA:0", "a:b:AAAAAAAAQACAAAAAAAAAAA:12", "x:y:z"]
        answer = await (await wire.peer()).ask(
            "find_coordinator", 6, coordinator_keys=keys, key_type=2
        )
        assert [(each.error_code, each.port) for each in answer.coordinators] == [
            (0, 9092),
            (0, 9092),
            (42, -1),
        ]


# ApiVersions


@versions("api_versions")
async def test_api_versions(version: int) -> None:
    async with Wire() as wire:
        answer = await (await wire.peer()).ask(
            "api_versions",
            version,
            client_software_name="kafka-python",
            client_software_version="3.0.12",
        )
        assert answer.error_code == 0
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
            (api.key, api.advertised_from, api.max_version) for api in APIS.values()
        ]
        produce = answer.api_keys[0]
        assert (produce.api_key, produce.min_version, produce.max_version) == (0, 0, 13)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1"), ("a b", "1"), ("a", "-x"), ("a_b", "1"), ("a", ""), ("a\n", "1")],
)
async def test_software_names_that_kafka_refuses(
    version: int, name: str, software_version: str
) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        names = {"client_software_name": name, "client_software_version": software_version}
        answer = await peer.ask("api_versions", version, **names)
        assert (answer.error_code, answer.api_keys) == (42, ())
        names = {"client_software_name": "a", "client_software_version": "2.1-dirty"}
        assert (await peer.ask("api_versions", version, **names)).error_code == 0


async def test_group_requests_of_many_peers_at_once() -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.Heartbeat] = answered.HeartbeatResponse()
        peers = [await wire.peer() for _ in range(20)]
        answers = await asyncio.gather(
            *(
                peer.ask("heartbeat", n % 5, group_id=f"g{n}", generation_id=n, member_id="m")
                for n, peer in enumerate(peers)
            )
        )
        assert {answer.error_code for answer in answers} == {0}
        assert {request.group for request in wire.groups.submitted} == {f"g{n}" for n in range(20)}


async def test_errors_are_counted_by_api_once_per_answer() -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        wire.groups.answers[asked.Heartbeat] = answered.HeartbeatResponse(
            ErrorCode.rebalance_in_progress
        )
        wire.groups.answers[asked.LeaveGroup] = answered.LeaveGroupResponse(
            error=ErrorCode.not_coordinator
        )
        for version in (3, 4, 4):
            await peer.ask("heartbeat", version, group_id="g", generation_id=1, member_id="m")
        await peer.ask("leave_group", 3, group_id="g", members=[])
        unknown = [
            {"name": name, "partitions": [to_commit(p, 1) for p in (0, 1)]}
            for name in ("no", "none")
        ]
        await peer.ask("offset_commit", 8, group_id="g", member_id="", topics=unknown)
        await peer.ask("api_versions", 3, client_software_name="a", client_software_version="1")
        assert wire.listener.statistics().errors == {
            ("heartbeat", "REBALANCE_IN_PROGRESS"): 3,
            ("leave_group", "NOT_COORDINATOR"): 1,
            ("offset_commit", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        }
