"""Large responses on their way to clients: order, bounds, and what the connection is told."""

import asyncio
import contextlib
import os
import random
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
import uvloop

from kohort.log.stores import FileSlice, FileStore, OpenFiles
from kohort.server.net.pacing import (
    ENCRYPT_CHUNK,
    ENCRYPTED_PER_TURN,
    READ_CHUNK,
    EncryptingTransport,
    sending_from_files,
)

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")


class FakeTls(asyncio.Transport):
    """A transport that tells its protocol to pause beyond 64 KiB, and takes all the same."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.unread = 0
        self.is_closed = False
        self.on_full: Callable[[], None]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written.append(bytes(data))
        self.unread += len(data)
        if self.unread > ENCRYPT_CHUNK >= self.unread - len(data):
            self.on_full()

    def get_write_buffer_size(self) -> int:
        return self.unread

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


class Told(asyncio.Protocol):
    def __init__(self) -> None:
        self.told: list[str] = []
        self.transport: asyncio.BaseTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def data_received(self, data: bytes) -> None:
        raise AssertionError

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.told.append("lost")

    def drop(self, why: str) -> None:
        self.told.append(why)
        self.transport.abort()  # type: ignore[attr-defined]

    async def until(self, word: str) -> None:
        """Wait until that is the last that it was told."""
        while self.told[-1:] != [word]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class PacingBench:
    def __init__(self) -> None:
        self.tls, self.connection = FakeTls(), Told()
        self.transport = EncryptingTransport(self.tls, self.connection)
        self.tls.on_full = self.transport.pause_writing

    def read(self) -> None:
        """Have the client read all that the transport has."""
        self.tls.unread = 0
        self.transport.resume_writing()

    @property
    def written(self) -> bytes:
        return b"".join(self.tls.written)


def test_small_responses_go_through() -> None:
    bench = PacingBench()
    bench.transport.write(b"a")
    bench.transport.writelines([b"b", b"", b"c"])
    assert (bench.written, bench.connection.told) == (b"abc", [])
    bench.transport.close()
    assert bench.tls.is_closed


async def test_large_responses_wait_until_the_client_reads() -> None:
    bench = PacingBench()
    large = bytes(range(250)) * 1_000
    bench.transport.writelines([large[:200_000], large[200_000:]])
    assert bench.transport.get_write_buffer_size() == len(large)
    assert bench.tls.unread <= 2 * ENCRYPT_CHUNK
    bench.transport.close()
    assert not bench.tls.is_closed
    while bench.written != large:
        assert bench.connection.told == ["pause"]
        bench.read()
    assert max(map(len, bench.tls.written)) == ENCRYPT_CHUNK
    await asyncio.sleep(0)
    assert bench.tls.is_closed


def test_bytes_written_during_a_large_response_follow_it() -> None:
    bench = PacingBench()
    large = bytes(200_000)
    bench.transport.writelines([large])
    bench.transport.write(b"small")
    bench.transport.writelines([b"and ", b"pieces"])
    while bench.connection.told[-1] != "resume":
        bench.read()
    assert bench.written == large + b"smalland pieces"
    assert bench.connection.told == ["pause", "resume"]
    assert bench.transport.get_write_buffer_size() == bench.tls.unread


async def test_a_turn_of_the_loop_encrypts_a_bounded_part() -> None:
    bench = PacingBench()
    bench.tls.on_full = lambda: None  # the client reads as fast as it comes
    bench.transport.writelines([bytes(3 * ENCRYPTED_PER_TURN + 1)])
    for turn in range(1, 4):
        assert len(bench.written) == turn * ENCRYPTED_PER_TURN
        assert bench.connection.told == ["pause"]
        await asyncio.sleep(0)
    assert len(bench.written) == 3 * ENCRYPTED_PER_TURN + 1
    assert bench.connection.told == ["pause", "resume"]


async def test_a_lost_connection_keeps_and_writes_nothing() -> None:
    bench = PacingBench()
    bench.tls.on_full = lambda: None
    bench.transport.writelines([bytes(2 * ENCRYPTED_PER_TURN)])
    bench.tls.unread = 0
    bench.transport.connection_lost()
    assert bench.transport.get_write_buffer_size() == 0
    await asyncio.sleep(0)
    assert len(bench.written) == ENCRYPTED_PER_TURN


class Sending:
    """A connection that sends from a file to a socket, and its client."""

    def __init__(self, path: Path, before: bytes = b"") -> None:
        """`before` is what is written before the first records of a file."""
        self.before = before
        self.content = random.Random(1).randbytes(1 << 20)
        path.write_bytes(self.content)
        self.path = path
        self.store = FileStore(str(path), len(self.content), OpenFiles())
        self.connection = Told()

    async def __aenter__(self) -> Self:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        self.plain, _ = await loop.connect_accepted_socket(lambda: self.connection, ours)
        self.plain.write(self.before)
        is_full = bool(self.connection.told)
        self.transport = sending_from_files(self.plain, ours, self.connection, is_full=is_full)
        self.reader, self.writer = await asyncio.open_connection(sock=theirs, limit=1 << 12)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.transport.abort()
        self.writer.close()
        await asyncio.sleep(0)

    def send(self) -> None:
        """Send some pieces, small and large ones."""
        size = len(self.content)
        slices = [self.store.take(at, size - at) for at in (0, 100, size // 2)]
        assert all(isinstance(each, FileSlice) for each in slices)
        self.transport.writelines([b"he", b"", b"ad", slices[0], slices[1], b"tail", slices[2]])

    @property
    def sent(self) -> bytes:
        """The bytes of `send`."""
        size = len(self.content)
        pieces = b"head", self.content, self.content[100:], b"tail", self.content[size // 2 :]
        return b"".join(pieces)


@pytest.mark.parametrize(
    "event_loop_policy",
    [asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()],
    ids=["asyncio", "uvloop"],
)
class TestRecordsInAFile:
    async def test_a_client_gets_all_of_it_in_order(self, tmp_path: Path) -> None:
        async with Sending(tmp_path / "log") as bench:
            bench.transport.write(b"before")
            bench.send()
            assert bench.transport.get_write_buffer_size() > 0
            bench.transport.write(b"behind")
            bench.send()
            expected = b"before" + bench.sent + b"behind" + bench.sent
            assert await bench.reader.readexactly(len(expected)) == expected
            await bench.connection.until("resume")
            assert bench.transport.get_write_buffer_size() == 0

    async def test_little_memory_is_taken_for_a_client_that_does_not_read(
        self, tmp_path: Path
    ) -> None:
        async with Sending(tmp_path / "log") as bench:
            tracemalloc.start()
            bench.send()
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 3 * READ_CHUNK

    async def test_a_transport_that_is_full_already_gets_no_more(self, tmp_path: Path) -> None:
        before = bytes(2_000_000)
        async with Sending(tmp_path / "log", before) as bench:
            assert bench.connection.told == ["pause"]
            size = bench.plain.get_write_buffer_size()
            bench.send()
            assert bench.plain.get_write_buffer_size() == size
            expected = before + bench.sent
            assert await bench.reader.readexactly(len(expected)) == expected
            await bench.connection.until("resume")
            assert bench.connection.told == ["pause", "resume"]

    async def test_a_closed_transport_sends_the_rest_of_its_file(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with Sending(tmp_path / "log") as bench:
            bench.send()
            bench.transport.close()
            assert await bench.reader.read(-1) == bench.sent
        assert not caplog.records

    async def test_a_connection_is_dropped_when_its_file_cannot_be_read(
        self, tmp_path: Path
    ) -> None:
        async with Sending(tmp_path / "log") as bench:
            bench.send()
            os.truncate(bench.path, 0)
            with contextlib.suppress(ConnectionError):
                await bench.reader.read(-1)
            assert any("cannot be read" in each for each in bench.connection.told)

    async def test_a_client_that_goes_ends_it(self, tmp_path: Path) -> None:
        async with Sending(tmp_path / "log") as bench:
            bench.send()
            bench.writer.transport.abort()
            await bench.connection.until("lost")
            assert bench.transport.get_write_buffer_size() == 0

    async def test_a_client_that_has_gone_is_written_to_no_more(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with Sending(tmp_path / "log") as bench:
            bench.writer.transport.abort()
            await asyncio.sleep(0)
            bench.send()
            await bench.connection.until("lost")
        assert not caplog.records
