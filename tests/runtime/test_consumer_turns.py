"""Work on large consumer groups: how long the loop waits."""

from uuid import UUID

from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    MemberKey,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
)
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.log.base import LogConfig
from kohort.log.memory import memory_log
from kohort.runtime.group_log import append_records
from kohort.types import Timestamp, TopicPartition
from runtime.served import answer, serving, turns
from turns import BOUND_MS, longest_turn_ms

MEMBERS = 10_000
METADATA = ConsumerGroupMemberMetadataValue(topics=("t",), rebalance_timeout_ms=60_000)


async def test_slow_regular_expressions():
    names = ["a" * 240 + str(number) for number in range(40)]
    topics = FixedTopics([TopicImage(name, UUID(int=n), 1) for n, name in enumerate(names, 1)], 1)
    slow = "(?:.{0,20}a.{0,20}){50}b"
    async with serving(topics=topics) as served:
        joined = served.consumer_heartbeat("g", "A", 0, regex=slow)
        worst, _ = await longest_turn_ms(turns(1_000))
        assert joined.error == "none"
        assert slow in served.groups.group("g").regexes
    print(f"{worst:.0f} ms")
    assert worst < BOUND_MS


async def description(served):
    return await answer(served.describe_consumer_group("g"))


async def test_the_description_of_a_large_group():
    log = memory_log(TopicPartition("__consumer_offsets", 0), LogConfig())
    topic_id = UUID(int=1)
    for number in range(MEMBERS):
        key = MemberKey("g", f"m{number}")
        current = CurrentMemberAssignmentValue(2, 1, 0, {topic_id: {number: 2}}, {})
        target = TargetAssignmentMemberValue({topic_id: (number,)})
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
    topics = FixedTopics([TopicImage("t", topic_id, MEMBERS)], 1)
    async with serving(log, topics=topics) as served:
        worst, described = await longest_turn_ms(description(served))
        print(f"{worst:.0f} ms")
        assert len(described.members) == MEMBERS
        assert described.topics == {topic_id: "t"}
    assert worst < BOUND_MS
