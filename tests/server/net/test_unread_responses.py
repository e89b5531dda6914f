"""Clients that request and never read: what they leave in the server is bounded together."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kohort.log.stores import FileStore, OpenFiles
from kohort.server.net.pacing import SendingTransport
from kohort.server.net.request_memory import UNMETERED
from kohort.server.net.response_memory import ResponseMemory
from server.net.bench import Peer, Wire

MEBI = 1024 * 1024
pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")


@pytest.fixture(
    params=[asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()],
    ids=["asyncio", "uvloop"],
    scope="module",
)
def event_loop_policy(request) -> asyncio.AbstractEventLoopPolicy:
    """Both loops: their transports differ in what they do when."""
    return request.param


class Reader:
    def __init__(self) -> None:
        self.dropped = False

    def drop(self, _why: str) -> None:
        self.dropped = True


def test_memory_for_unread_responses_is_shared_and_given_back() -> None:
    memory = ResponseMemory(40 * MEBI)
    assert memory.largest == 10 * MEBI
    first, second = Reader(), Reader()
    memory.set(first, 20 * MEBI)
    assert memory.largest == 5 * MEBI
    memory.set(second, UNMETERED)
    assert memory.used == 20 * MEBI
    memory.set(first, 0)
    memory.set(first, 0)
    assert (memory.used, memory.largest) == (0, 10 * MEBI)
    assert ResponseMemory(-1).largest is None


def test_the_longest_waiting_reader_is_dropped_beyond_the_limit() -> None:
    memory = ResponseMemory(10 * MEBI)
    readers = [Reader() for _ in range(4)]
    for reader in readers:
        memory.set(reader, 4 * MEBI)
    assert [each.dropped for each in readers] == [True, True, False, False]
    assert memory.used == 8 * MEBI
    memory.set(readers[0], 0)  # its connection ends later
    assert memory.used == 8 * MEBI
    alone = Reader()
    only = ResponseMemory(10)
    only.set(alone, MEBI)
    assert not alone.dropped, "one response may be larger than the limit, as one request may"


async def unread(peer: Peer) -> None:
    """Make the peer's system buffers small and read nothing."""
    peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]


async def test_readers_that_never_read_are_counted_and_dropped() -> None:
    async with Wire(response_bytes=20 * MEBI) as wire:
        wire.handle("metadata", lambda _, exchange, __: exchange.respond_encoded(bytes(9 * MEBI)))
        peers = [await wire.peer() for _ in range(4)]
        for number, peer in enumerate(peers):
            await unread(peer)
            peer.send(peer.request("metadata", 9, topics=[]))
            accepted = number + 1
            await wire.until(lambda: wire.listener.metrics.requests[3] == accepted)  # noqa: B023
            assert wire.listener.statistics().unread_bytes < 20 * MEBI
        await wire.until(lambda: wire.listener.statistics().connections <= 3)
        for peer in peers:
            peer.leave()
        await wire.until(lambda: wire.listener.statistics().unread_bytes == 0)


async def test_a_client_that_reads_slowly_gets_all_of_it() -> None:
    async with Wire(response_bytes=2 * MEBI) as wire:
        body = bytes(1024) * 8 * 1024
        wire.handle("metadata", lambda _, exchange, __: exchange.respond_encoded(body))
        peer = await wire.peer()
        for _ in range(2):
            peer.send(peer.request("metadata", 9, topics=[]))
        await asyncio.sleep(0.1)
        assert len(await peer.content()) == len(await peer.content()) == len(body) + 5
        await wire.until(lambda: wire.listener.statistics().unread_bytes == 0)


async def test_records_of_a_file_wait_behind_responses_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(MEBI))
    store = FileStore(str(path), MEBI, OpenFiles())
    parked: list[Any] = []
    small = bytes(UNMETERED - 100)
    async with Wire() as wire:
        wire.handle("metadata", lambda _, exchange, __: exchange.respond_encoded(small))
        wire.handle("fetch", lambda _, exchange, __: parked.append(exchange))
        peer = await wire.peer()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        metadata = peer.request("metadata", 9, topics=[])
        fetch = peer.request("fetch", 4, max_wait_ms=0, min_bytes=1, topics=[])
        responses = 0
        while not wire.listener.statistics().unread_bytes:
            if parked:
                parked.pop().end_without_response()
            peer.send(metadata + fetch)
            await wire.until(lambda: parked)
            responses += 1
        parked.pop().respond_encoded([b"head", store.take(0, MEBI)])
        peer.send(metadata)
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        sizes = [len(await peer.content()) for _ in range(responses + 2)]
        assert sizes == [len(small) + 5] * responses + [MEBI + 8, len(small) + 5]


@pytest.mark.parametrize("closes", [False, True])
async def test_a_client_that_sends_no_more_gets_all_records_of_a_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    closes: bool,
) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(MEBI))
    store = FileStore(str(path), MEBI, OpenFiles())
    monkeypatch.setattr(SendingTransport, "per_turn", 1)
    async with Wire() as wire:
        wire.handle(
            "fetch", lambda _, exchange, __: exchange.respond_encoded([store.take(0, MEBI)])
        )
        peer = await wire.peer()
        peer.send(peer.request("fetch", 4, max_wait_ms=0, min_bytes=1, topics=[]))
        await wire.until(lambda: wire.listener.metrics.requests)
        async with asyncio.TaskGroup() as tasks:
            if closes:
                tasks.create_task(wire.listener.close(5.0))
                await asyncio.sleep(0)
            peer.writer.write_eof()
            assert len(await peer.closed()) == 8 + MEBI
    assert not caplog.records


async def test_a_client_that_sends_no_more_gets_all_of_a_large_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Wire() as wire:
        wire.handle("metadata", lambda _, exchange, __: exchange.respond_encoded(bytes(9 * MEBI)))
        peer = await wire.peer()
        peer.send(peer.request("metadata", 9, topics=[]))
        peer.writer.write_eof()
        assert len(await peer.closed()) == 9 * MEBI + 9
        await wire.until(lambda: not wire.listener.statistics().connections)
    assert not caplog.records


async def test_a_request_that_comes_as_the_responses_are_read_is_served() -> None:
    connections: list[Any] = []

    def respond(_services: Any, exchange: Any, _request: Any) -> None:
        connections.append(exchange.connection)
        exchange.respond_encoded(b"")

    async with Wire() as wire:
        wire.handle("metadata", respond)
        peer = await wire.peer()
        peer.send(peer.request("metadata", 9, topics=[]))
        assert await peer.correlation_id() == 1
        connections[0].pause_writing()
        connections[0].resume_writing()
        connections[0].data_received(peer.request("metadata", 9, topics=[]))
        assert await peer.correlation_id() == 2


async def test_a_client_that_neither_sends_nor_reads_is_idle() -> None:
    async with Wire(idle_ms=100) as wire:
        wire.handle("metadata", lambda _, exchange, __: exchange.respond_encoded(bytes(9 * MEBI)))
        peer = await wire.peer()
        await unread(peer)
        peer.send(peer.request("metadata", 9, topics=[]))
        await wire.until(lambda: wire.listener.statistics().unread_bytes)
        peer.writer.write_eof()
        await wire.until(lambda: wire.listener.statistics().hung_up)
