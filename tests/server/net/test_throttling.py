"""Clients that have to wait because of their quotas, over real sockets (KIP-219)."""

import asyncio
import inspect
import os
import resource
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from kohort.coordinator.requests import Heartbeat
from kohort.coordinator.responses import HeartbeatResponse
from kohort.protocol.messages import response
from kohort.quotas import EMPTY, REQUEST_PERCENTAGE, quota_entity
from kohort.server.net import creation_rate
from kohort.server.net.file_descriptors import first_reserved
from kohort.util.eager import start
from server.net.bench import Peer, Wire

HEARTBEAT: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m"}
CONNECTION_RATE = "connection_creation_rate"
LONG_MS = 60_000
TEST_CLIENT = quota_entity([("client-id", "test")])


def throttle_metadata(wire: Wire, wait_ms: int) -> None:
    """Have each Metadata request end with such a wait."""

    def handle(_services: Any, exchange: Any, _request: Any) -> None:
        exchange.throttle(wait_ms)
        exchange.respond(response(3, exchange.version, brokers=(), topics=(), cluster_id="c"))

    wire.handle("metadata", handle)
    wire.groups.answers[Heartbeat] = HeartbeatResponse()


async def ask_metadata(peer: Peer) -> int:
    """How long the client is told to wait, in ms."""
    answer = await peer.ask("metadata", 12, topics=())
    return round(answer.throttle_time.total_seconds() * 1000)


async def test_the_response_comes_at_once_and_the_next_request_waits() -> None:
    async with Wire() as wire:
        throttle_metadata(wire, 200)
        peer, other = await wire.peer(), await wire.peer()
        before = asyncio.get_running_loop().time()
        assert await ask_metadata(peer) == 200
        peer.send(peer.request("heartbeat", 4, **HEARTBEAT))
        assert (await other.ask("heartbeat", 4, **HEARTBEAT)).error_code == 0
        assert len(wire.groups.submitted) == 1
        assert (await peer.answer("heartbeat", 4)).error_code == 0
        assert asyncio.get_running_loop().time() - before >= 0.2
        assert wire.listener.statistics().throttled == {"metadata": 1}


async def test_requests_that_were_sent_ahead_wait() -> None:
    async with Wire() as wire:
        throttle_metadata(wire, LONG_MS)
        peer = await wire.peer()
        requests = [peer.request("heartbeat", 4, **HEARTBEAT) for _ in range(3)]
        peer.send(peer.request("metadata", 12, topics=()) + b"".join(requests))
        assert (await peer.answer("metadata", 12)).throttle_time.total_seconds() == 60
        peer.send(requests[0])
        assert await peer.is_silent(0.1)
        assert not wire.groups.submitted


async def test_a_client_that_goes_and_a_server_that_stops_do_not_wait() -> None:
    async with Wire() as wire:
        throttle_metadata(wire, LONG_MS)
        gone, stays = await wire.peer(), await wire.peer()
        await ask_metadata(gone)
        await ask_metadata(stays)
        gone.leave()
        await wire.until(lambda: wire.listener.statistics().connections == 1)
        await asyncio.wait_for(wire.listener.close(30.0), 20)
        assert await stays.closed() == b""


@pytest.mark.parametrize("end", ["the server stops", "the client sends no more"])
async def test_a_request_that_ends_with_a_wait_is_the_last_one(end: str) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handle(_services: Any, exchange: Any, _request: Any) -> None:
        begun.set()
        await may_end.wait()
        exchange.throttle(LONG_MS)
        exchange.respond(response(3, exchange.version, brokers=(), topics=(), cluster_id="c"))

    async with Wire() as wire:
        wire.handle("metadata", handle)
        peer = await wire.peer()
        peer.send(peer.request("metadata", 12, topics=()))
        await begun.wait()
        closing = None
        if end == "the server stops":
            closing = asyncio.create_task(wire.listener.close(LONG_MS / 1000))
            await asyncio.sleep(0.01)
        else:
            peer.writer.write_eof()
            await asyncio.sleep(0.05)
        may_end.set()
        assert (await peer.answer("metadata", 12)).throttle_time.total_seconds() == 60
        assert await asyncio.wait_for(peer.closed(), 20) == b""
        if closing is not None:
            await asyncio.wait_for(closing, 20)


async def test_a_metered_request_that_never_begins_is_closed() -> None:
    """Its connection is lost in the turn in which it came."""
    made: list[Coroutine[Any, Any, None]] = []

    async def work() -> None:
        raise AssertionError("the request began")

    def handle(_services: Any, _exchange: Any, _request: Any) -> Coroutine[Any, Any, None]:
        made.append(work())
        return made[0]

    async with Wire() as wire:
        wire.quotas.replace(TEST_CLIENT, {REQUEST_PERCENTAGE: 1_000.0})
        wire.handle("metadata", handle)
        peer = await wire.peer()
        await wire.until(lambda: wire.listener.statistics().connections)
        connection: Any = next(iter(wire.listener._connections._open))
        connection.data_received(peer.request("metadata", 12, topics=()))
        connection.abort()
        connection.connection_lost(None)
        await wire.until(lambda: inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED)


async def test_requests_before_the_end_are_served_after_the_wait() -> None:
    async with Wire() as wire:
        throttle_metadata(wire, 100)
        peer = await wire.peer()
        await ask_metadata(peer)
        peer.send(peer.request("heartbeat", 4, **HEARTBEAT))
        peer.writer.write_eof()
        assert (await peer.answer("heartbeat", 4)).error_code == 0
        assert await peer.closed() == b""


async def test_a_connection_that_waits_longer_than_it_may_be_idle_is_closed() -> None:
    """Clients that go while their requests wait are not noticed otherwise."""
    async with Wire(idle_ms=100) as wire:
        throttle_metadata(wire, LONG_MS)
        peer = await wire.peer()
        heartbeat = peer.request("heartbeat", 4, **HEARTBEAT)
        await ask_metadata(peer)
        peer.send(heartbeat)
        peer.writer.write_eof()
        assert await peer.closed() == b""
        assert not wire.groups.submitted


def fill_gaps() -> list[int]:
    """Descriptors up to the highest one in use: those of connections come in order behind them."""
    highest = max(map(int, os.listdir("/dev/fd")))
    filled = [os.dup(0)]
    while filled[-1] < highest:
        filled.append(os.dup(0))
    return filled


async def test_refused_connections_that_wait_leave_descriptors_for_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client's end of a connection has a descriptor of this process as well."""
    monkeypatch.setattr(creation_rate, "MAX_WAIT_S", 600.0)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    filled = fill_gaps()
    enough = filled[-1] + 40
    for limit in range(enough, 4 * enough):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        if first_reserved() == enough:
            break
    try:
        async with Wire() as wire:
            wire.quotas.replace(quota_entity([("ip", None)]), {CONNECTION_RATE: 0.001})
            peers = [await wire.peer() for _ in range(30)]
            assert await peers[-1].closed() == b""
            assert await peers[1].is_silent(0.1)
            assert not peers[1].reader.at_eof()
            assert wire.listener.statistics().refused == 29
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in filled:
            os.close(descriptor)


@pytest.mark.parametrize("is_coroutine", [False, True])
async def test_time_on_the_loop_counts_for_its_client(is_coroutine: bool) -> None:
    """So much that the wait is the longest one: a second."""

    def work(exchange: Any) -> None:
        until = asyncio.get_running_loop().time() + 0.01
        while asyncio.get_running_loop().time() < until:
            pass
        if not is_coroutine:
            exchange.respond(response(3, exchange.version, brokers=(), topics=(), cluster_id="c"))

    async def work_later(exchange: Any) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            work(exchange)
        exchange.respond(response(3, exchange.version, brokers=(), topics=(), cluster_id="c"))

    async with Wire() as wire:
        wire.handle(
            "metadata", lambda _, exchange, __: (work_later if is_coroutine else work)(exchange)
        )
        peer = await wire.peer()
        assert await ask_metadata(peer) == 0
        wire.quotas.replace(TEST_CLIENT, {REQUEST_PERCENTAGE: 0.001})
        assert await ask_metadata(peer) == 1_000
        wire.quotas.replace(TEST_CLIENT, EMPTY)
        assert await ask_metadata(await wire.peer()) == 0


@pytest.mark.parametrize("is_begun_without_task", [False, True])
async def test_the_time_of_a_thread_counts_for_its_client(is_begun_without_task: bool) -> None:
    """A large request is decoded there, and its response encoded."""

    def compute() -> None:
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass

    async def work(services: Any, exchange: Any, _request: Any) -> None:
        await services.heavy_work.run(compute)
        exchange.respond(response(3, exchange.version, brokers=(), topics=(), cluster_id="c"))

    async with Wire() as wire:
        wire.handle(
            "metadata",
            (lambda *request: start(work(*request))) if is_begun_without_task else work,
        )
        # 11 windows of 0.05 % are 5 ms, half of what the thread works.
        wire.quotas.replace(TEST_CLIENT, {REQUEST_PERCENTAGE: 0.05})
        assert await ask_metadata(await wire.peer()) > 0


async def test_waiting_is_no_work() -> None:
    async def wait(_services: Any, exchange: Any, _request: Any) -> None:
        await asyncio.sleep(0.3)
        exchange.respond(response(3, exchange.version, brokers=(), topics=(), cluster_id="c"))

    async with Wire() as wire:
        wire.handle("metadata", wait)
        # 11 windows of 1 % are 0.1 s
        wire.quotas.replace(TEST_CLIENT, {REQUEST_PERCENTAGE: 1.0})
        assert await ask_metadata(await wire.peer()) == 0


async def test_work_that_counts_is_cancelled_with_its_connection() -> None:
    cancelled = asyncio.Event()

    async def wait(*_: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with Wire() as wire:
        wire.handle("fetch", wait)
        wire.quotas.replace(TEST_CLIENT, {REQUEST_PERCENTAGE: 1.0})
        peer = await wire.peer()
        peer.send(peer.request("fetch", 4, max_wait_ms=3_600_000, min_bytes=1, topics=[]))
        await wire.until(lambda: wire.listener.statistics().requests)
        peer.leave()
        await asyncio.wait_for(cancelled.wait(), 60)


async def test_repeated_heartbeats_count() -> None:
    async with Wire() as wire:
        wire.groups.answers[Heartbeat] = HeartbeatResponse()
        peer = await wire.peer()
        for _ in range(3):
            assert not (await peer.ask("heartbeat", 4, **HEARTBEAT)).throttle_time
        wire.quotas.replace(TEST_CLIENT, {REQUEST_PERCENTAGE: 1e-9})
        answer = await peer.ask("heartbeat", 4, **HEARTBEAT)
        assert answer.throttle_time.total_seconds() == 1
