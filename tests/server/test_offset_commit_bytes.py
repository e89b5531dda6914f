"""An OffsetCommit that is taken from its bytes does what a decoded one does, byte for byte.

Two coordinators get the same requests, one in each way: their answers, their logs and their state must not differ.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

from handler_bench import FakeExchange
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_bench import TOPIC_ID, FakeTopics

from kohort.coordinator.config import GroupConfig
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue, MemberMetadata
from kohort.log.memory import memory_log
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import decode_request, encode, request
from kohort.runtime.group_log import append_records
from kohort.runtime.groups import Groups
from kohort.server.handlers import offset_commit
from kohort.types import Instant, TopicPartition

KEY = BY_NAME["offset_commit"].key
NOW = Instant(1_700_000_000_000)
STABLE = GroupMetadataRecord(
    GroupMetadataKey("stable"),
    GroupMetadataValue(
        "consumer", 4, "range", "m", NOW, (MemberMetadata("m", "i", "c", "/127.0.0.1", 60_000, 10_000, b"", b""),)
    ),
)


class World:
    """A coordinator of three shards with one stable group, and how requests come to it."""

    def __init__(self, *, from_bytes: bool) -> None:
        self._from_bytes = from_bytes
        self.logs = [memory_log(TopicPartition("__consumer_offsets", number)) for number in range(3)]
        for log in self.logs:
            append_records(log, [[STABLE]], NOW)
        clock = SimpleNamespace(now=lambda: NOW)
        self.groups = Groups(self.logs, GroupConfig(), clock)
        self.broker: Any = SimpleNamespace(topics=FakeTopics(), groups=self.groups)
        self.taken = 0

    def ask(self, version: int, data: bytes) -> FakeExchange:
        exchange: Any = FakeExchange(KEY, version)
        exchange.later = lambda function, *more: lambda response: function(exchange, *more, response)
        take = offset_commit.TAKES_BYTES.get(version) if self._from_bytes else None
        if take is not None and take(self.broker, exchange, data, 0):
            self.taken += 1
        else:
            offset_commit.handle(self.broker, exchange, decode_request(KEY, version, data))
        return exchange

    def logged(self) -> list[bytes]:
        return [bytes(log.read(0, 1 << 30)) for log in self.logs]

    def state(self) -> dict[str, Any]:
        return {
            group.id: (group.logged, dict(group.offsets), [session.deadline for session in group.sessions.values()])
            for group in self.groups.groups()
        }


async def both_ways(turns: list[list[tuple[int, bytes]]], *, loaded: bool = True) -> tuple[World, World]:
    worlds = World(from_bytes=True), World(from_bytes=False)
    answers = []
    for world in worlds:
        world.groups.start()
        if loaded:
            await world.groups.loaded()
        exchanges = []
        for turn in turns:
            exchanges += [world.ask(*asked) for asked in turn]
            await asyncio.sleep(0)
        await world.groups.close()
        answers.append([exchange.packed for exchange in exchanges])
    assert answers[0] == answers[1]
    assert None not in answers[0]
    assert worlds[0].logged() == worlds[1].logged()
    assert worlds[0].state() == worlds[1].state()
    return worlds


def commit(version: int, topics: list[dict[str, Any]], *, group: str = "g", generation: int = -1, member: str = "",
           instance: str | None = None) -> tuple[int, bytes]:  # fmt: skip
    fields = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member}
    return version, encode(request(KEY, version, **fields, group_instance_id=instance, topics=topics))


def orders(*partitions: int, offset: int = 7, metadata: str | None = "") -> dict[str, Any]:
    return {
        "name": "orders",
        "topic_id": TOPIC_ID,
        "partitions": [
            {"partition_index": p, "committed_offset": offset + p, "committed_metadata": metadata} for p in partitions
        ],
    }


positions = st.fixed_dictionaries(
    {
        "partition_index": st.sampled_from((0, 1, 2, 2, 1, 0, 0, 3, -1)),
        "committed_offset": st.integers(-(2**63), 2**63 - 1),
        "committed_leader_epoch": st.integers(-1, 2**31 - 1),
        "committed_metadata": st.sampled_from(("", "", "", "", None, "note")),
    }
)
topics = st.fixed_dictionaries(
    {
        "name": st.sampled_from(("orders", "orders", "orders", "nope", "é")),
        "topic_id": st.sampled_from((TOPIC_ID, TOPIC_ID, TOPIC_ID, None)),
        "partitions": st.lists(positions, max_size=4),
    }
)
commits = st.builds(
    commit,
    st.integers(7, 10),
    st.lists(topics, max_size=3),
    group=st.sampled_from(("g", "h", "stable", "", "é", "x" * 200)),
    generation=st.sampled_from((-1, -1, 4, 5)),
    member=st.sampled_from(("", "m", "other")),
    instance=st.sampled_from((None, None, "i", "j")),
)


@settings(max_examples=150, deadline=None)
@given(turns=st.lists(st.lists(commits, max_size=4), max_size=4))
def test_answers_records_and_state_are_the_same_in_both_ways(turns: list[list[tuple[int, bytes]]]) -> None:
    asyncio.run(both_ways(turns))


async def test_what_is_usual_is_taken_from_its_bytes() -> None:
    usual = [
        commit(8, [orders(0)]),
        commit(9, [orders(0, 1, 2), orders(1, metadata=None)], group="stable", generation=4, member="m", instance="i"),
        commit(10, [orders(2)], group="stable", generation=4, member="m"),
        commit(9, [orders(*(0, 1, 2) * 200)], group="h"),
    ]
    from_bytes, _ = await both_ways([usual, usual])
    assert from_bytes.taken == 2 * len(usual)


async def test_what_is_not_is_left_to_the_decoder() -> None:
    unusual = [
        commit(7, [orders(0)]),
        commit(9, [orders(0, metadata="note")]),
        commit(9, [orders(0, 3)]),
        commit(9, [orders(-1)]),
        commit(9, [orders()]),
        commit(9, []),
        commit(9, [orders(0) | {"name": "nope"}]),
        commit(10, [orders(0) | {"topic_id": None}]),
        commit(9, [orders(0)], group="x" * 127),
    ]
    from_bytes, _ = await both_ways([unusual])
    assert from_bytes.taken == 0


async def test_many_commits_of_one_turn_share_batches_as_before() -> None:
    turn = [commit(9, [orders(*(0, 1, 2) * 111, offset=n)], group=f"g{n % 7}") for n in range(40)]
    from_bytes, _ = await both_ways([turn])
    assert from_bytes.taken == 40


async def test_while_the_shards_load_both_say_so() -> None:
    worlds = await both_ways([[commit(9, [orders(0, 1)]), commit(9, [orders(0)], group="stable")]], loaded=False)
    assert worlds[0].taken == 2


def test_bytes_that_end_early_are_left_to_the_decoder() -> None:
    version, data = commit(9, [orders(0, 1), orders(2)], member="m", instance="i")
    world = World(from_bytes=True)
    for end in range(len(data)):
        exchange: Any = FakeExchange(KEY, version)
        assert not offset_commit.TAKES_BYTES[version](world.broker, exchange, data[:end], 0)
