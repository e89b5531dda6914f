"""An OffsetCommit taken from its bytes, or known from the one before, does what a decoded one does,
byte for byte.

Two coordinators get the same requests, one in each way: their answers, their logs and their state
must not differ.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Iterable
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeAlias
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from kohort.log.memory import memory_log
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import decode_request, encode, frame_head, read_header, request
from kohort.runtime.group_log import append_records
from kohort.runtime.groups import Groups
from kohort.server.authorization import allow_everything
from kohort.server.broker import Broker
from kohort.server.config.config import Config
from kohort.server.handlers import offset_commit
from kohort.server.net.exchange import Exchange
from kohort.types import Instant, Timestamp, TopicPartition
from server.net.bench import TOPIC_ID, FakeTopics, Peer
from server.topic_deletion import delete_topic

KEY = BY_NAME["offset_commit"].key
NOW = Instant(1_700_000_000_000)
STABLE = GroupMetadataRecord(
    GroupMetadataKey("stable"),
    GroupMetadataValue(
        "consumer",
        4,
        "range",
        "m",
        NOW,
        (MemberMetadata("m", "i", "c", "/127.0.0.1", 60_000, 10_000, b"", b""),),
    ),
)


class FakeConnection:
    """Keeps what was answered, and what may come again."""

    is_open = True

    def __init__(self) -> None:
        self.repeat: Any = None
        self.answers: list[bytes] = []
        self.errors: Counter[tuple[int, int]] = Counter()
        self._ids = count(2**31 - 3)

    def frame(self, version: int, body: bytes) -> bytes:
        correlation_id = (next(self._ids) + 2**31) % 2**32 - 2**31
        content = (
            struct.pack(">hhih4s", KEY, version, correlation_id, 4, b"test")
            + b"\0" * (version >= 8)
            + body
        )
        return struct.pack(">i", len(content)) + content

    def cache_request(self, request: Any) -> None:
        self.repeat = request

    def respond(self, exchange: Exchange, body: bytes, errors: Iterable[int]) -> None:
        self.errors.update((KEY, error) for error in errors if error)
        self.answers.append(
            frame_head(KEY, exchange.version, exchange.correlation_id, len(body)) + body
        )

    def respond_again(self, error: int) -> None:
        if self.is_open:
            self.errors.update([(KEY, error)] if error else [])
            self.answers.append(self.repeat.response(error))

    def fail(self, error: Exception, _exchange: Exchange | None = None) -> None:
        raise error


class CommitBench:
    """A coordinator of three shards with one stable group, and how requests come to it."""

    def __init__(self, *, from_bytes: bool) -> None:
        self._from_bytes = from_bytes
        self.logs = [
            memory_log(TopicPartition("__consumer_offsets", number)) for number in range(3)
        ]
        for log in self.logs:
            append_records(log, [[STABLE]], NOW)
        clock = SimpleNamespace(now=lambda: NOW, timestamp=lambda: Timestamp(NOW))
        self.groups = Groups(self.logs, GroupCoordinatorConfig(), clock)
        self.services: Any = SimpleNamespace(
            topics=FakeTopics(),
            groups=self.groups,
            access=allow_everything,
            has_authorizer=False,
        )
        self.taken = self.again = 0

    def ask(self, connection: "FakeConnection", version: int, body: bytes) -> None:
        data = connection.frame(version, body)
        if connection.repeat is not None and connection.repeat.matches(data):
            connection.repeat.submit(connection.respond_again)
            self.again += 1
            return
        *_, correlation_id, client_id, at = read_header(data)
        exchange: Any = Exchange(connection, KEY, version, correlation_id, client_id)
        take = offset_commit.FAST_PATHS.get(version) if self._from_bytes else None
        if take is not None and take(self.services, exchange, data, at):
            self.taken += 1
        else:
            offset_commit.handle(self.services, exchange, decode_request(KEY, version, data, at))

    def logged(self) -> list[bytes]:
        return [bytes(log.read(0, 1 << 30)) for log in self.logs]

    def state(self) -> dict[str, Any]:
        return {
            group.id: (
                group.logged,
                dict(group.offsets),
                [session.deadline for session in group.sessions.values()],
            )
            for group in self.groups.groups()
        }


async def both_ways(
    turns: list[list["Asked"]], *, loaded: bool = True
) -> tuple[CommitBench, CommitBench]:
    worlds = CommitBench(from_bytes=True), CommitBench(from_bytes=False)
    answers = []
    for world in worlds:
        world.groups.start()
        if loaded:
            await world.groups.loaded()
        connections = [FakeConnection() for _ in range(max(map(len, turns), default=0))]
        for turn in turns:
            for connection, asked in zip(connections, turn, strict=False):
                world.ask(connection, *asked)
            await asyncio.sleep(0)
        await world.groups.close()
        answers.append([(connection.answers, connection.errors) for connection in connections])
    assert answers[0] == answers[1]
    assert sum(len(given) for given, _ in answers[0]) == sum(map(len, turns))
    assert worlds[0].logged() == worlds[1].logged()
    assert worlds[0].state() == worlds[1].state()
    return worlds


Asked: TypeAlias = tuple[int, bytes]
"""Version and body of a request."""


def commit(
    version: int,
    topics: list[dict[str, Any]],
    *,
    group: str = "g",
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
) -> Asked:
    fields = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member}
    return version, encode(
        request(KEY, version, **fields, group_instance_id=instance, topics=topics)
    )


def orders(*partitions: int, offset: int = 7, metadata: str | None = "") -> dict[str, Any]:
    return {
        "name": "orders",
        "topic_id": TOPIC_ID,
        "partitions": [
            {"partition_index": p, "committed_offset": offset + p, "committed_metadata": metadata}
            for p in partitions
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
who = st.fixed_dictionaries(
    {
        "group": st.sampled_from(("g", "h", "stable", "", "é", "x" * 200)),
        "generation": st.sampled_from((-1, -1, 4, 5)),
        "member": st.sampled_from(("", "m", "other")),
        "instance": st.sampled_from((None, None, "i", "j")),
    }
)
commits = st.builds(lambda version, topics, who: commit(version, topics, **who), st.integers(7, 10),
                    st.lists(topics, max_size=3), who)  # fmt: skip


@settings(max_examples=examples(150))
@given(turns=st.lists(st.lists(commits, max_size=4), max_size=4))
def test_answers_records_and_state_are_the_same_in_both_ways(turns: list[list[Asked]]) -> None:
    asyncio.run(both_ways(turns))


@st.composite
def rows_of_commits(draw: st.DrawFn) -> list[Asked]:
    """What one connection commits: always the same but for the positions, nearly always."""
    version, named, by = draw(st.integers(8, 10)), draw(topics), draw(who)
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        partitions = [position | draw(changes) for position in named["partitions"]]
        rows.append(commit(version, [named | {"partitions": partitions}], **by))
    return rows


changes = st.fixed_dictionaries(
    {"committed_offset": st.integers(-1, 2**63 - 1)},
    optional={
        "committed_leader_epoch": st.integers(-1, 9),
        "partition_index": st.sampled_from((0, 1, 2, 3)),
        "committed_metadata": st.sampled_from((None, "", "", "note")),
    },
)


@settings(max_examples=examples(150))
@given(st.lists(rows_of_commits(), min_size=1, max_size=3))
def test_the_same_commit_again_is_answered_as_the_first_one(connections: list[list[Asked]]) -> None:
    turns = [[rows[min(at, len(rows) - 1)] for rows in connections] for at in range(4)]
    asyncio.run(both_ways(turns))


async def test_a_repeated_commit_is_recognized() -> None:
    turns = [
        [commit(9, [orders(0, 1, offset=n)]), commit(10, [orders(1, offset=n)], group="h")]
        for n in range(5)
    ]
    turns.append([commit(9, [orders(2, 1)])])
    turns.append([commit(9, [orders(2)])])
    from_bytes, _ = await both_ways(turns)
    assert (from_bytes.taken, from_bytes.again) == (3, 9)


async def test_a_topic_that_grew_or_was_made_anew_is_noticed() -> None:
    world = CommitBench(from_bytes=True)
    world.groups.start()
    await world.groups.loaded()
    connection = FakeConnection()

    async def errors(*partitions: int) -> list[int]:
        connection.errors.clear()
        world.ask(connection, *commit(9, [orders(*partitions)]))
        await asyncio.sleep(0)
        return [error for _, error in sorted(connection.errors)]

    assert await errors(0) == []
    assert await errors(3) == [3]
    old = world.services.topics.orders
    old.partitions += (None,)
    assert await errors(3) == []
    new_id = UUID(int=1)
    world.services.topics.orders = SimpleNamespace(name="orders", id=new_id, partitions=(None,))
    assert await errors(3) == [3]
    assert await errors(0) == []
    assert world.again == 1
    offsets = world.groups.group("g").offsets
    assert offsets[TopicPartition("orders", 0)].topic_id == new_id
    assert offsets[TopicPartition("orders", 3)].topic_id == TOPIC_ID
    await world.groups.close()


async def test_a_frame_that_differs_anywhere_else_is_not_it() -> None:
    world = CommitBench(from_bytes=True)
    connection = FakeConnection()
    version, body = commit(9, [orders(0, 1)], member="m")
    world.ask(connection, version, body)
    data = connection.frame(version, body)
    first = len(data) - 2 - 2 * 18
    for at in (*range(8), *range(12, first), first + 16, first + 17, *range(first + 34, len(data))):
        for change in 2, 128:
            changed = data[:at] + bytes((data[at] ^ change,)) + data[at + 1 :]
            assert not connection.repeat.matches(changed)
    for other in (data[:-1], data + b"\0", data[:4]):
        assert not connection.repeat.matches(other)
    assert connection.repeat.matches(data)


async def test_bytes_behind_a_request_are_nothing_that_comes_again() -> None:
    connection = FakeConnection()
    version, body = commit(9, [orders(0)])
    CommitBench(from_bytes=True).ask(connection, version, body + b"\0\0")
    assert (connection.repeat, len(connection.answers)) == (None, 1)


async def test_a_usual_commit_is_taken_from_its_bytes() -> None:
    usual = [
        commit(8, [orders(0)]),
        commit(
            9,
            [orders(0, 1, 2), orders(1, metadata=None)],
            group="stable",
            generation=4,
            member="m",
            instance="i",
        ),
        commit(10, [orders(2)], group="stable", generation=4, member="m"),
        commit(9, [orders(*(0, 1, 2) * 200)], group="h"),
    ]
    from_bytes, _ = await both_ways([usual, usual])
    assert from_bytes.taken + from_bytes.again == 2 * len(usual)


async def test_an_unusual_commit_is_left_to_the_decoder() -> None:
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
    worlds = await both_ways(
        [[commit(9, [orders(0, 1)]), commit(9, [orders(0)], group="stable")]], loaded=False
    )
    assert worlds[0].taken == 2


def test_bytes_that_end_early_are_left_to_the_decoder() -> None:
    version, data = commit(9, [orders(0, 1), orders(2)], member="m", instance="i")
    world = CommitBench(from_bytes=True)
    for end in range(len(data)):
        exchange: Any = Exchange(FakeConnection(), KEY, version, 7, "test")
        assert not offset_commit.FAST_PATHS[version](world.services, exchange, data[:end], 0)


async def test_a_peer_that_has_gone_is_answered_no_more() -> None:
    world = CommitBench(from_bytes=True)
    world.groups.start()
    await world.groups.loaded()
    connection = FakeConnection()
    for closed in (False, True):
        world.ask(connection, *commit(9, [orders(0)]))
        connection.is_open = not closed
        await asyncio.sleep(0)
    assert (world.again, len(connection.answers)) == (1, 1)
    await world.groups.close()


async def test_over_a_real_connection() -> None:
    """Again and again, two in one write, and the topic deleted in between."""
    who = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}

    def fields(offset: int) -> dict[str, Any]:
        return who | {"topics": [orders(0, 1, offset=offset)]}

    async with Broker(Config({"listeners": "127.0.0.1:0", "storage": "memory"})) as broker:
        broker.controller.topics.create("orders", 2)
        await broker.groups.loaded()
        peer = Peer(*await asyncio.open_connection(*broker.address))
        for offset in range(5):
            response = await peer.ask("offset_commit", 9, **fields(offset))
            assert [partition.error_code for partition in response.topics[0].partitions] == [0, 0]
        peer.send(
            peer.request("offset_commit", 9, **fields(8))
            + peer.request("offset_commit", 9, **fields(9))
        )
        assert [await peer.correlation_id() for _ in range(2)] == [6, 7]
        assert [value.offset for value in broker.groups.group("g").offsets.values()] == [9, 10]
        delete_topic(broker.controller, "orders")
        response = await peer.ask("offset_commit", 9, **fields(5))
        assert [partition.error_code for partition in response.topics[0].partitions] == [3, 3]
        assert broker.listener.statistics().requests["offset_commit"] == 8
        peer.writer.close()
