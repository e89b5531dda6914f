"""Large responses on their way to TLS: order, bounds, and what the connection is told."""

import asyncio
from collections.abc import Callable

from kohort.server.net.encrypting import ENCRYPT_TOGETHER, ENCRYPTED_PER_TURN, EncryptingTransport


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
        if self.unread > ENCRYPT_TOGETHER >= self.unread - len(data):
            self.on_full()

    def get_write_buffer_size(self) -> int:
        return self.unread

    def close(self) -> None:
        self.is_closed = True


class Told(asyncio.Protocol):
    def __init__(self) -> None:
        self.told: list[str] = []

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Bench:
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
    bench = Bench()
    bench.transport.write(b"a")
    bench.transport.writelines([b"b", b"", b"c"])
    assert (bench.written, bench.connection.told) == (b"abc", [])
    bench.transport.close()
    assert bench.tls.is_closed


def test_large_responses_wait_until_the_client_reads() -> None:
    bench = Bench()
    large = bytes(range(250)) * 1_000
    bench.transport.writelines([large[:200_000], large[200_000:]])
    assert bench.transport.get_write_buffer_size() == len(large)
    assert bench.tls.unread <= 2 * ENCRYPT_TOGETHER
    bench.transport.close()
    assert not bench.tls.is_closed
    while bench.written != large:
        assert bench.connection.told == ["pause"]
        bench.read()
    assert max(map(len, bench.tls.written)) == ENCRYPT_TOGETHER
    assert bench.tls.is_closed


def test_what_is_written_meanwhile_follows() -> None:
    bench = Bench()
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
    bench = Bench()
    bench.tls.on_full = lambda: None  # the client reads as fast as it comes
    bench.transport.writelines([bytes(3 * ENCRYPTED_PER_TURN + 1)])
    for turn in range(1, 4):
        assert len(bench.written) == turn * ENCRYPTED_PER_TURN
        assert bench.connection.told == ["pause"]
        await asyncio.sleep(0)
    assert len(bench.written) == 3 * ENCRYPTED_PER_TURN + 1
    assert bench.connection.told == ["pause", "resume"]


async def test_a_lost_connection_keeps_and_writes_nothing() -> None:
    bench = Bench()
    bench.tls.on_full = lambda: None
    bench.transport.writelines([bytes(2 * ENCRYPTED_PER_TURN)])
    bench.tls.unread = 0
    bench.transport.connection_lost()
    assert bench.transport.get_write_buffer_size() == 0
    await asyncio.sleep(0)
    assert len(bench.written) == ENCRYPTED_PER_TURN
