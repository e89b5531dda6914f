"""A heartbeat that comes again, word for word, is answered as one that comes for the first time."""

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.requests import Heartbeat
from kohort.coordinator.responses import HeartbeatResponse
from kohort.errors import ErrorCode
from kohort.log.memory import memory_log
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import frame_head
from kohort.protocol.response_fast_path import heartbeat, steady_heartbeat
from kohort.runtime.clock import SystemClock
from kohort.runtime.groups import Groups
from kohort.server.broker import Broker
from kohort.server.config.config import Config
from kohort.server.handlers import heartbeat as heartbeat_handler
from kohort.server.handlers.consumer_group_heartbeat import RepeatedSteadyHeartbeat
from kohort.server.handlers.heartbeat import RepeatedHeartbeat
from kohort.types import TopicPartition
from server.handlers.bench import START, batch_of
from server.net.bench import Peer, Wire

MEMORY = {"listeners": "127.0.0.1:0", "storage": "memory", "group.initial.rebalance.delay.ms": "0"}
HEARTBEAT = BY_NAME["heartbeat"].key
A_MINUTE_MS = 60_000


def frame(key: int, version: int, correlation_id: int, rest: bytes) -> bytes:
    content = struct.pack(">hhi", key, version, correlation_id) + rest
    return struct.pack(">i", len(content)) + content


def repeated(data: bytes, version: int) -> RepeatedHeartbeat:
    return RepeatedHeartbeat(data, version, lambda: ErrorCode.unknown_member_id)


ids = st.integers(-(2**31), 2**31 - 1)


@given(st.integers(0, 4), ids, ids, st.binary(max_size=20))
def test_all_but_the_correlation_id_has_to_be_the_same(
    version: int, first: int, second: int, rest: bytes
) -> None:
    request = repeated(frame(HEARTBEAT, version, first, rest), version)
    for correlation_id in (first, second):
        assert request.matches(frame(HEARTBEAT, version, correlation_id, rest))
        errors: list[ErrorCode] = []
        request.submit(errors.append)
        assert errors == [ErrorCode.unknown_member_id]
        for error in (ErrorCode.none, *errors):
            body = heartbeat(version, error)
            assert request.response(error) == (
                frame_head(HEARTBEAT, version, correlation_id, len(body)) + body
            )


@given(
    st.integers(0, 4), st.binary(min_size=2, max_size=20), st.integers(0, 30), st.integers(1, 255)
)
def test_a_frame_that_differs_anywhere_else_is_not_it(
    version: int, rest: bytes, at: int, change: int
) -> None:
    data = frame(HEARTBEAT, version, 7, rest)
    request = repeated(data, version)
    at %= len(data)
    if not 8 <= at < 12:
        assert not request.matches(data[:at] + bytes((data[at] ^ change,)) + data[at + 1 :])
    assert not request.matches(data[:-1])
    assert not request.matches(data + b"\0")
    assert request.matches(data)


CONSUMER_HEARTBEAT = BY_NAME["consumer_group_heartbeat"].key


def test_a_steady_heartbeat_comes_again_for_as_long_as_it_has_no_other_effect() -> None:
    member = SteadyHeartbeat("g", "m", 3, None, "client", "/127.0.0.1")
    intervals: list[int | None] = [5_000, 6_000, None]
    heartbeat = iter(intervals).__next__
    request = RepeatedSteadyHeartbeat(
        frame(CONSUMER_HEARTBEAT, 1, 1, b"rest"), member, heartbeat, 5_000
    )
    assert not request.matches(frame(CONSUMER_HEARTBEAT, 1, 2, b"else"))
    for correlation_id, interval_ms in ((3, 5_000), (4, 6_000)):
        again = frame(CONSUMER_HEARTBEAT, 1, correlation_id, b"rest")
        assert request.matches(again)
        body = steady_heartbeat("m", 3, interval_ms)
        assert request.response(ErrorCode.none) == (
            frame_head(CONSUMER_HEARTBEAT, 1, correlation_id, len(body)) + body
        )
    assert not request.matches(again)


async def test_a_steady_heartbeat_is_decided_anew_each_time() -> None:
    async with Broker(Config(MEMORY)) as broker:
        await broker.groups.loaded()
        members = Members(broker)
        one, two = await members.peer(), await members.peer()
        await one.ask("create_topics", 5, topics=[{"name": "t", "num_partitions": 2}])

        async def beat(peer: Peer, member_id: str, epoch: int, **said: Any) -> Any:
            named = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
            named |= {"topic_partitions": None} | said
            return await peer.ask("consumer_group_heartbeat", 1, **named)

        joins = {
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
            "rebalance_timeout": 9_000,
        }
        first = await beat(one, "a", 0, **joins)
        assert first.member_epoch > 0
        for _ in range(3):
            again = await beat(one, "a", first.member_epoch)
            assert (again.member_epoch, again.assignment) == (first.member_epoch, None)
        assert (await beat(two, "b", 0, **joins)).error_code == 0
        await beat(two, "a", -1)
        for peer in (one, await members.peer()):
            gone = await beat(peer, "a", first.member_epoch)
            assert gone.error_code == ErrorCode.unknown_member_id
        members.leave()


class Members:
    """Members of one group of a real broker, and a connection whose heartbeat has been asked
    before.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._peers: list[Peer] = []

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_connection(*self.broker.address))
        self._peers.append(peer)
        return peer

    def leave(self) -> None:
        for peer in self._peers:
            peer.leave()

    async def join(self, peer: Peer, member_id: str = "", instance_id: str | None = "i") -> Any:
        """Its answer; a new member gets its id first if it is dynamic."""
        fields = {
            "group_id": "g",
            "session_timeout_ms": A_MINUTE_MS,
            "rebalance_timeout_ms": A_MINUTE_MS,
            "member_id": member_id,
            "group_instance_id": instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        answer = await peer.ask("join_group", 7, **fields)
        return (
            await self.join(peer, answer.member_id, instance_id)
            if answer.error_code == 79
            else answer
        )

    async def sync(self, peer: Peer, joined: Any) -> None:
        assignments = [{"member_id": joined.member_id, "assignment": b"x"}]
        fields = {
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "assignments": assignments,
        }
        assert (await peer.ask("sync_group", 4, group_id="g", **fields)).error_code == 0


@pytest.mark.parametrize("instance_id", ["i", None])
async def test_a_repeated_heartbeat_is_judged_anew_each_time(instance_id: str | None) -> None:
    async with Broker(Config(MEMORY)) as broker:
        await broker.groups.loaded()
        members = Members(broker)
        one, again = await members.peer(), await members.peer()
        first = await members.join(one, instance_id=instance_id)
        fields = {
            "group_id": "g",
            "generation_id": first.generation_id,
            "member_id": first.member_id,
            "group_instance_id": instance_id,
        }

        async def beat() -> int:
            """The error that all ways agree on: repeated, and for the first time."""
            fresh = await members.peer()
            answers = [await again.ask("heartbeat", 4, **fields) for _ in range(2)]
            answers += [await fresh.ask("heartbeat", version, **fields) for version in (4, 4, 3, 3)]
            (error,) = {int(each.error_code) for each in answers}
            return error

        assert await beat() == 0, "the generation is being synced"
        await members.sync(one, first)
        assert await beat() == 0
        two = await members.peer()
        second = asyncio.ensure_future(members.join(two, instance_id=None))
        while broker.groups.statistics()["parked"] == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert await beat() == ErrorCode.rebalance_in_progress
        rejoined = await members.join(one, first.member_id, instance_id)
        await second
        assert await beat() == ErrorCode.illegal_generation
        await members.sync(one, rejoined)
        fields["generation_id"] = rejoined.generation_id
        assert await beat() == 0
        if instance_id is None:
            await two.ask("leave_group", 1, group_id="g", member_id=first.member_id)
            assert await beat() == ErrorCode.unknown_member_id
        else:
            replaced = await members.join(await members.peer(), instance_id=instance_id)
            assert replaced.member_id != first.member_id
            assert await beat() == ErrorCode.fenced_instance_id
        members.leave()


@pytest.mark.parametrize(
    ("damaged", "served"),
    [(False, ErrorCode.unknown_member_id), (True, ErrorCode.not_coordinator)],
)
async def test_a_repeated_heartbeat_is_refused_while_its_shard_does_not_serve(
    damaged: bool, served: ErrorCode
) -> None:
    log = memory_log(TopicPartition("__consumer_offsets", 0))
    if damaged:
        log.append(batch_of(b"", key=b"\0"), START)  # no key of any version
    groups = Groups([log], GroupCoordinatorConfig(), SystemClock())
    async with Wire(groups=groups) as wire:
        again = await wire.peer()
        fields = {"group_id": "g", "generation_id": 1, "member_id": "m"}

        async def beat() -> int:
            fresh = await wire.peer()
            answers = [await again.ask("heartbeat", 4, **fields) for _ in range(2)]
            answers += [
                await fresh.ask("heartbeat", version, **fields) for version in (4, 4, 3, 3, 0, 0)
            ]
            (error,) = {int(each.error_code) for each in answers}
            return error

        assert await beat() == 0, "while it loads"
        groups.start()
        await groups.loaded()
        assert await beat() == served
        await groups.close()
        assert await beat() == ErrorCode.not_coordinator


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.rebalance_in_progress])
async def test_every_version_is_answered_with_the_same_bytes_as_a_decoded_request(
    version: int, error: ErrorCode
) -> None:
    async with Wire() as fast, Wire() as slow:
        slow.handle("heartbeat", heartbeat_handler.handle)  # and no fast path
        contents, seen = [], []
        for wire in (fast, slow):
            wire.groups.answers[Heartbeat] = HeartbeatResponse(error)
            wire.dispatcher.load(HEARTBEAT)
            peer = await wire.peer()
            fields: dict[str, Any] = {"group_id": "g", "generation_id": 7, "member_id": "m"}
            if version >= 3:
                fields["group_instance_id"] = "i"
            got = []
            for _ in range(3):
                peer.send(peer.request("heartbeat", version, **fields))
                got.append(await peer.content())
            contents.append(got)
            seen.append(wire.groups.submitted)
            statistics = wire.listener.statistics()
            assert statistics.requests == {"heartbeat": 3}
            assert sum(statistics.errors.values()) == (3 if error else 0)
        assert contents[0] == contents[1]
        assert seen[0] == seen[1]


async def test_repeated_heartbeats_are_counted_as_any_other_and_their_errors_too() -> None:
    async with Wire() as wire:
        errors = iter([ErrorCode.none, ErrorCode.none, ErrorCode.unknown_member_id])
        wire.groups.answers[Heartbeat] = lambda _: HeartbeatResponse(next(errors))
        peer = await wire.peer()
        data = peer.request("heartbeat", 4, group_id="g", generation_id=1, member_id="m")
        for _ in range(3):
            peer.send(data)
            await peer.content()
        statistics = wire.listener.statistics()
        assert statistics.requests == {"heartbeat": 3}
        assert statistics.errors == {("heartbeat", "UNKNOWN_MEMBER_ID"): 1}
        assert (statistics.bytes_in, statistics.bytes_out) == (3 * len(data), 3 * 16)


async def test_a_bug_in_a_repeated_request_closes_its_connection_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Wire() as wire:
        answers = iter([HeartbeatResponse()])
        wire.groups.answers[Heartbeat] = lambda _: next(answers)
        peer = await wire.peer()
        data = peer.request("heartbeat", 4, group_id="g", generation_id=1, member_id="m")
        peer.send(data)
        await peer.content()
        peer.send(data)
        assert await peer.closed() == b""
        assert wire.listener.statistics().failed == 1
    assert len(caplog.records) == 1


async def test_a_request_is_repeated_behind_others() -> None:
    """Frames that come together, or in parts, go through the reader; they are answered in order all
    the same.
    """
    async with Wire() as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        fields = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        frames = [peer.request("heartbeat", 4, **fields) for _ in range(6)]
        peer.send(frames[0])
        assert await peer.correlation_id() == 1
        peer.send(frames[1] + frames[2] + frames[3][:5])
        assert [await peer.correlation_id() for _ in range(2)] == [2, 3]
        peer.send(frames[3][5:] + frames[4])
        assert [await peer.correlation_id() for _ in range(2)] == [4, 5]
        peer.send(frames[5])
        assert await peer.correlation_id() == 6


async def test_requests_that_come_together_are_not_parsed_again() -> None:
    async with Wire() as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        parse, parsed = heartbeat_handler.FAST_PATHS[4], 0

        def count(*request: Any) -> bool:
            nonlocal parsed
            parsed += 1
            return parse(*request)

        wire.dispatcher.register(HEARTBEAT, heartbeat_handler.handle, {4: count})
        peer = await wire.peer()
        fields = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        same = [peer.request("heartbeat", 4, **fields) for _ in range(100)]
        fields["generation_id"] = 2
        other = [peer.request("heartbeat", 4, **fields) for _ in range(2)]
        peer.send(b"".join((*same, *other)))
        assert [await peer.correlation_id() for _ in range(102)] == list(range(1, 103))
        assert parsed == 2
        assert [each.generation for each in wire.groups.submitted] == [1] * 100 + [2] * 2


async def test_commits_that_come_together_are_decided_one_after_the_other() -> None:
    async with Broker(Config(MEMORY)) as broker:
        await broker.groups.loaded()
        peer = Peer(*await asyncio.open_connection(*broker.address))
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        await peer.ask("create_topics", 5, topics=[topic])

        def commit(offset: int) -> bytes:
            partitions = [{"partition_index": 0, "committed_offset": offset}]
            topics = [{"name": "t", "partitions": partitions}]
            return peer.request("offset_commit", 8, group_id="g", topics=topics)

        def fetch() -> bytes:
            topics = [{"name": "t", "partition_indexes": [0]}]
            return peer.request("offset_fetch", 7, group_id="g", topics=topics)

        peer.send(commit(1) + commit(2) + fetch() + commit(3) + commit(4) + fetch())
        for offset in (2, 4):
            for _ in range(2):
                told = await peer.answer("offset_commit", 8)
                assert told.topics[0].partitions[0].error_code == 0
            fetched = await peer.answer("offset_fetch", 7)
            assert fetched.topics[0].partitions[0].committed_offset == offset
        peer.leave()
