"""A disk that fails in the middle of rebalances of a consumer group."""

import asyncio
from random import Random
from uuid import UUID

import pytest

from effort import seeds
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.errors import ErrorCode
from runtime.fake_log import FakeLog
from runtime.served import answer, serving
from runtime.virtual_time import virtual_time

TOPIC_ID = UUID(int=1)
PARTITIONS = 12
TOPICS = FixedTopics([TopicImage("t", TOPIC_ID, PARTITIONS)], version=1)
DISK = OSError(5, "Input/output error")


def failed_future():
    future = asyncio.get_running_loop().create_future()
    future.set_exception(DISK)
    future.exception()  # asyncio complains of those that nobody looks at
    return future


class Member:
    """What a client of the consumer protocol does: it revokes before it acknowledges."""

    def __init__(self, served, member_id):
        self.served, self.member_id = served, member_id
        self.epoch = 0
        self.owned = frozenset()
        self.told = None
        """Whether the coordinator knows `owned`; None: the last response was an error."""

    async def heartbeat(self):
        full = self.told is None or self.epoch == 0
        options = {"topics": ["t"], "rebalance_timeout_ms": 60_000} if full else {}
        owned = None if self.told else {TOPIC_ID: tuple(self.owned)} if self.owned else {}
        response = await answer(
            self.served.consumer_heartbeat("g", self.member_id, self.epoch, owned=owned, **options)
        )
        if response.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch):
            self.epoch, self.owned, self.told = 0, frozenset(), None
        elif response.error is not ErrorCode.none:
            self.told = None
        else:
            self.epoch, self.told = response.member_epoch, True
            if response.assignment is not None:
                self.owned = frozenset(response.assignment.get(TOPIC_ID, ()))
                self.told = False

    async def leave(self):
        await answer(self.served.consumer_heartbeat("g", self.member_id, -1))
        self.epoch, self.owned, self.told = 0, frozenset(), None


@pytest.mark.parametrize("is_written", [False, True], ids=["not written", "written, not durable"])
@pytest.mark.parametrize("seed", seeds(5))
@virtual_time
async def test_a_failing_disk_gives_no_partition_to_two_members(seed, is_written):
    random = Random(seed)
    log = FakeLog()
    async with serving(log, topics=TOPICS, waits_for_disk=is_written) as served:
        members = [Member(served, f"m{number}") for number in range(4)]

        def fail(fails):
            if is_written:
                log.undurable = failed_future() if fails else None
            else:
                log.failure = DISK if fails else None

        for _ in range(200):
            fail(random.random() < 0.15)
            member = random.choice(members)
            await (member.leave if random.random() < 0.05 else member.heartbeat)()
            held = [each for one in members for each in one.owned]
            assert len(held) == len(set(held))
            if random.random() < 0.3:
                fail(False)
                await asyncio.sleep(random.uniform(0, 6))
        fail(False)
        for _ in range(20):
            await asyncio.sleep(1)
            for member in members:
                await member.heartbeat()
        assert sorted(each for one in members for each in one.owned) == [*range(PARTITIONS)]
