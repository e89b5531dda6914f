"""Scenarios played against small servers that are silent, close, or respond out of turn."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kohort_conformance import runner
from kohort_conformance.runner import UnreachableError, play, run_all, run_twice, shard_of, warm_up
from kohort_conformance.scenario import Scenario
from kohort_conformance.stage import SetUpError, Stage

Server = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
API_VERSIONS = struct.pack(">hi", 0, 0)
HEARTBEAT = struct.pack(">h", 25)


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[int]:
    listener = await asyncio.start_server(server, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()


async def requests(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, int]]:
    """API key and correlation id of each request."""
    while size := await reader.read(4):
        frame = await reader.readexactly(int.from_bytes(size, "big"))
        key, _, correlation = struct.unpack_from(">hhi", frame)
        yield key, correlation


def framed(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation) + body


async def polite(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers ApiVersions and Heartbeat v0, closes at anything else."""
    async for key, correlation in requests(reader):
        if key not in (18, 12):
            break
        writer.write(framed(correlation, API_VERSIONS if key == 18 else HEARTBEAT))
    writer.close()


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async for _ in requests(reader):
        pass
    writer.close()


async def confused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async for _, correlation in requests(reader):
        writer.write(framed(correlation + 1, HEARTBEAT))
    writer.close()


async def steps_of(scene: Callable[[Stage], Awaitable[None]], server: Server = polite) -> list[Any]:
    async with serving(server) as port:
        run = await play(Scenario("s.x", "s", "T.", scene), "127.0.0.1", port, "token")
    return list(run.steps)


async def beat(stage: Stage) -> dict[str, Any]:
    a = await stage.client()
    return await a.send("Heartbeat", 0, group_id="g", generation_id=1, member_id="m").response(0.2)


async def test_an_answer_is_recorded_by_its_fields() -> None:
    async def scene(stage: Stage) -> None:
        await beat(stage)

    response = {"error_code": "UNKNOWN_MEMBER_ID (25)"}
    assert await steps_of(scene) == [{"step": "a: Heartbeat v0", "answer": response}]


@pytest.mark.parametrize(
    ("server", "outcome"),
    [(deaf, "no answer"), (confused, "undecodable: correlation id 2 instead of 1")],
)
async def test_a_missing_answer_is_an_outcome(server: Server, outcome: str) -> None:
    async def scene(stage: Stage) -> None:
        assert await beat(stage) == {}

    assert await steps_of(scene, server) == [{"step": "a: Heartbeat v0", "outcome": outcome}]


async def test_a_hang_up_is_an_outcome_for_all_that_were_waiting() -> None:
    async def scene(stage: Stage) -> None:
        a = await stage.client()
        first, second = a.send("Metadata", 9, topics=[]), a.send("ListGroups", 0)
        await first.response()
        await second.response()
        await a.is_hung_up()

    closed = "connection closed"
    assert await steps_of(scene) == [
        {"step": "a: Metadata v9", "outcome": closed},
        {"step": "a: ListGroups v0", "outcome": closed},
        {"step": "a: connection closed by the server", "answer": True},
    ]


async def test_parked_is_what_has_no_answer_yet() -> None:
    async def scene(stage: Stage) -> None:
        a = await stage.client()
        call = a.send("Heartbeat", 0, group_id="g", generation_id=1, member_id="m")
        await call.still_parked(0.1)

    assert await steps_of(scene, deaf) == [{"step": "a: Heartbeat v0 is parked", "answer": True}]
    assert await steps_of(scene, polite) == [{"step": "a: Heartbeat v0 is parked", "answer": False}]


async def test_a_scene_that_cannot_be_set_ends_the_scenario_with_a_word_about_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.note("begun", 1)
        await stage.create_topic()

    begun, end = await steps_of(scene)
    assert begun == {"step": "begun", "answer": 1}
    assert end == {
        "step": "could not go on",
        "outcome": ("topic maker: CreateTopics v5: connection closed"),
    }


async def test_a_mistake_in_a_scenario_ends_it_alone() -> None:
    async def scene(stage: Stage) -> None:
        raise KeyError("x")

    assert await steps_of(scene) == [{"step": "could not go on", "outcome": "KeyError: 'x'"}]


async def test_waiting_for_what_never_comes_gives_up() -> None:
    async def never() -> bool:
        return False

    stage = Stage("127.0.0.1", 1, "s", "-x")
    with pytest.raises(SetUpError, match=r"after 0\.1 s still not: rain"):
        await stage.until("rain", never, 0.1)


async def test_an_address_without_a_listener_is_unreachable() -> None:
    async with serving(polite) as port:
        pass
    with pytest.raises(UnreachableError, match=rf"nothing listens at 127\.0\.0\.1:{port}"):
        await warm_up("127.0.0.1", port)


async def test_a_peer_that_speaks_no_kafka_is_unreachable() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with serving(http) as port:
        with pytest.raises(UnreachableError, match="does not speak Kafka's protocol"):
            await warm_up("127.0.0.1", port)


async def test_broken_frames_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    def of(subject: str, waits: float = 0.0) -> Scenario:
        async def scene(stage: Stage) -> None:
            played.append(subject)

        return Scenario(f"{subject}.x", subject, "T.", scene, waits)

    async def skip(*_: object) -> None: ...

    monkeypatch.setattr(runner, "warm_up", skip)
    scenarios = [of("connections"), of("joining"), of("timeouts", waits=5)]
    runs = await run_all("127.0.0.1", 1, scenarios)
    assert played == ["timeouts", "joining", "connections"]
    assert [run.scenario.subject for run in runs] == ["connections", "joining", "timeouts"]


@pytest.mark.parametrize(
    ("group", "shard"),
    [("", 0), ("orders", 31), ("group-1", 49), ("polygenelubricants", 0), ("\U0001f600", 49)],
)
def test_the_shard_of_a_group_is_kafkas(group: str, shard: int) -> None:
    assert shard_of(group) == shard


async def test_scenarios_that_differ_are_played_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    def of(name: str) -> Scenario:
        async def scene(stage: Stage) -> None:
            played.append(name)
            stage.note("time", played.count(name))

        return Scenario(f"joining.{name}", "joining", "T.", scene)

    async def skip(*_: object) -> None: ...

    monkeypatch.setattr(runner, "warm_up", skip)
    runs = await run_twice(
        "127.0.0.1", 1, [of("late"), of("good")], lambda run: run.scenario.name.endswith("late")
    )
    assert sorted(played) == ["good", "late", "late"]
    assert [run.steps for run in runs] == [
        [{"step": "time", "answer": 2}],
        [{"step": "time", "answer": 1}],
    ]
