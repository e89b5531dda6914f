"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire, in every version."""

import uuid

from kohort.coordinator import requests as asked
from kohort.coordinator import responses as answered
from kohort.errors import ErrorCode
from server.net.bench import Wire
from server.net.group_requests import submitted, versions


@versions("join_group")
async def test_join_group_is_decoded_and_answered_in_every_version(version: int) -> None:
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


@versions("sync_group")
async def test_sync_group_is_decoded_and_answered_in_every_version(version: int) -> None:
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
async def test_heartbeat_is_decoded_and_answered_in_every_version(version: int) -> None:
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
async def test_leave_group_is_decoded_and_answered_in_every_version(version: int) -> None:
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
