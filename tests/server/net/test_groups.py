"""Group requests of several peers and of several APIs over the wire."""

import asyncio

from kohort.coordinator import requests as asked
from kohort.coordinator import responses as answered
from kohort.errors import ErrorCode
from server.net.bench import Wire
from server.net.group_requests import to_commit


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
