"""The APIs of consumer groups (KIP-848) over the wire: what the core is asked, and the response."""

from uuid import UUID

import pytest

from kohort.coordinator import requests as asked
from kohort.coordinator import responses as answered
from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.consumer_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kohort.errors import ErrorCode
from server.net.bench import TOPIC_ID, Wire

FIRST = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "instance_id": "i",
    "rack_id": "r",
    "rebalance_timeout": 30_000,
    "subscribed_topic_names": ["orders"],
    "subscribed_topic_regex": "o.*",
    "server_assignor": "range",
    "topic_partitions": [],
}
versions = pytest.mark.parametrize("version", [0, 1])


@versions
async def test_consumer_group_heartbeat_is_decoded_and_answered_in_every_version(
    version: int,
) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.ConsumerGroupHeartbeat] = answered.ConsumerGroupHeartbeatResponse(
            member_id="m",
            member_epoch=2,
            heartbeat_interval_ms=5_000,
            assignment={TOPIC_ID: (0, 2)},
        )
        answer = await (await wire.peer()).ask("consumer_group_heartbeat", version, **FIRST)
        (request,) = wire.groups.submitted
        assert (request.group, request.member_id, request.member_epoch) == ("g", "m", 0)
        assert (request.instance_id, request.rack_id) == ("i", "r")
        assert (request.rebalance_timeout_ms, request.topics) == (30_000, ("orders",))
        assert request.regex == ("o.*" if version >= 1 else None)
        assert (request.assignor, request.owned) == ("range", {})
        assert (request.client_id, request.client_host) == ("test", "/127.0.0.1")
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
        assert answer.heartbeat_interval.total_seconds() == 5
        (topic,) = answer.assignment.topic_partitions
        assert (topic.topic_id, topic.partitions) == (TOPIC_ID, (0, 2))


@versions
async def test_partitions_of_one_topic_may_come_in_parts(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.ConsumerGroupHeartbeat] = answered.ConsumerGroupHeartbeatResponse(
            error=ErrorCode.fenced_member_epoch, error_message="fenced"
        )
        owned = [{"topic_id": TOPIC_ID, "partitions": [each]} for each in (0, 2)]
        nameless = {"topic_id": None, "partitions": [1]}
        answer = await (await wire.peer()).ask(
            "consumer_group_heartbeat",
            version,
            group_id="g",
            member_id="m",
            member_epoch=1,
            topic_partitions=[*owned, nameless],
        )
        assert wire.groups.submitted[0].owned == {TOPIC_ID: (0, 2)}
        assert (answer.error_code, answer.error_message) == (110, "fenced")
        assert (answer.member_id, answer.assignment) == (None, None)


@pytest.mark.parametrize(("version", "is_new"), [(0, True), (1, False)])
async def test_only_in_v0_the_server_makes_a_member_id(version: int, is_new: bool) -> None:
    async with Wire() as wire:
        wire.groups.answers[asked.ConsumerGroupHeartbeat] = lambda request: (
            answered.ConsumerGroupHeartbeatResponse(member_id=request.member_id)
        )
        first = FIRST | {"member_id": ""}
        answer = await (await wire.peer()).ask("consumer_group_heartbeat", version, **first)
        assert len(answer.member_id) == (22 if is_new else 0)


@versions
async def test_a_steady_heartbeat_is_answered_without_a_request(version: int) -> None:
    async with Wire() as wire:
        wire.groups.answers[SteadyHeartbeat] = 5_000
        wire.groups.answers[asked.ConsumerGroupHeartbeat] = (
            answered.ConsumerGroupHeartbeatResponse()
        )
        peer = await wire.peer()
        await peer.ask("consumer_group_heartbeat", version, **FIRST)
        steady = {"group_id": "g", "member_id": "m", "member_epoch": 3, "topic_partitions": None}
        answer = await peer.ask("consumer_group_heartbeat", version, **steady)
        assert wire.groups.submitted[1:] == [
            SteadyHeartbeat("g", "m", 3, None, "test", "/127.0.0.1")
        ]
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 3)
        assert answer.assignment is None


@versions
async def test_consumer_group_describe_is_answered_in_every_version(version: int) -> None:
    described = answered.DescribeConsumerGroupResponse(
        group="g",
        state="Stable",
        epoch=3,
        target_epoch=2,
        assignor="uniform",
        topics={TOPIC_ID: "orders"},
        members=tuple(
            answered.DescribedConsumerMember(
                member_id=f"m{number}",
                epoch=2,
                metadata=ConsumerGroupMemberMetadataValue(
                    "i", "r", "c", "/127.0.0.1", ("orders",), "o.*", 30_000, None, classic
                ),
                assignment={TOPIC_ID: (1,), UUID(int=99): (0,)},
                target={},
            )
            for number, classic in enumerate((None, ClassicMemberMetadata(6_000, ())))
        ),
    )
    none = answered.DescribeConsumerGroupResponse(
        error=ErrorCode.group_id_not_found, error_message="Group none not found.", group="none"
    )
    async with Wire() as wire:
        wire.groups.answers[asked.DescribeConsumerGroup] = lambda request: (
            described if request.group == "g" else none
        )
        answer = await (await wire.peer()).ask(
            "consumer_group_describe",
            version,
            group_ids=["g", "none"],
            include_authorized_operations=True,
        )
    there, missing = answer.groups
    assert (there.error_code, there.group_id, there.group_state) == (0, "g", "Stable")
    assert (there.group_epoch, there.assignment_epoch, there.assignor_name) == (3, 2, "uniform")
    assert there.authorized_operations == 3400
    member = there.members[0]
    assert (member.member_id, member.member_epoch, member.instance_id) == ("m0", 2, "i")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("orders",), "o.*")
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (
        TOPIC_ID, "orders", (1,),
    )  # fmt: skip
    assert member.target_assignment.topic_partitions == ()
    if version >= 1:
        assert [each.member_type for each in there.members] == [1, 0]
    assert (missing.error_code, missing.error_message) == (69, "Group none not found.")
