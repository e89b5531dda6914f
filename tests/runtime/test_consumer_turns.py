"""Work on large consumer groups: how long the loop waits."""

from uuid import UUID

from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.log.base import LogConfig
from kohort.log.memory import memory_log
from kohort.runtime.group_log import append_records
from kohort.types import Timestamp, TopicPartition
from runtime.served import answer, serving
from turns import BOUND_MS, longest_turn_ms
from waiting import turns

MEMBERS = 10_000
METADATA = ConsumerGroupMemberMetadataValue(topics=("t",), rebalance_timeout_ms=60_000)


async def test_slow_regular_expressions():
    names = ["a" * 240 + str(number) for number in range(40)]
    topics = FixedTopics([TopicImage(name, UUID(int=n), 1) for n, name in enumerate(names, 1)], 1)
    slow = "(?:.{0,20}a.{0,20}){50}b"
    async with serving(topics=topics) as served:
        joined = served.consumer_heartbeat("g", "m", 0, regex=slow)
        worst, _ = await longest_turn_ms(turns(1_000))
        assert joined.error == "none"
        assert slow in served.groups.group("g").regexes
    print(f"{worst:.0f} ms")
    assert worst < BOUND_MS


async def description(served):
    return await answer(served.describe_consumer_group("g"))


TOPICS = FixedTopics([TopicImage("t", UUID(int=1), MEMBERS)], 1)


def large_group():
    """The log of a group in which every member has one partition."""
    log = memory_log(TopicPartition("__consumer_offsets", 0), LogConfig())
    for number in range(MEMBERS):
        key = MemberKey("g", f"m{number}")
        current = CurrentMemberAssignmentValue(2, 1, 0, {UUID(int=1): {number: 2}}, {})
        target = TargetAssignmentMemberValue({UUID(int=1): (number,)})
        append_records(
            log,
            [
                (
                    ConsumerGroupMemberMetadataRecord(key, METADATA),
                    CurrentMemberAssignmentRecord(key, current),
                    TargetAssignmentMemberRecord(key, target),
                )
            ],
            Timestamp(0),
        )
    epochs = (
        TargetAssignmentMetadataRecord(GroupKey("g"), TargetAssignmentMetadataValue(2)),
        ConsumerGroupMetadataRecord(GroupKey("g"), ConsumerGroupMetadataValue(2)),
    )
    append_records(log, [epochs], Timestamp(0))
    return log


async def test_the_description_of_a_large_group():
    async with serving(large_group(), topics=TOPICS) as served:
        worst, described = await longest_turn_ms(description(served))
        print(f"{worst:.0f} ms")
        assert len(described.members) == MEMBERS
        assert described.topics == {UUID(int=1): "t"}
    assert worst < BOUND_MS


async def new_target(served):
    """All members change to another assignor that gives each of them another partition."""
    await answer(served.consumer_heartbeat("g", "m", 0, topics=["t"], assignor="range"))
    while served.groups.group("g").assigning is not None:
        await turns()


async def test_the_target_of_a_large_group():
    async with serving(large_group(), topics=TOPICS) as served:
        worst, _ = await longest_turn_ms(new_target(served))
        group = served.groups.group("g")
        assert group.target_epoch == group.epoch
        changed = [
            m for m in group.targets if group.targets[m] != {UUID(int=1): (int(m[1:] or 0),)}
        ]
        assert len(changed) > 0.9 * MEMBERS
    print(f"{worst:.0f} ms")
    assert worst < BOUND_MS
