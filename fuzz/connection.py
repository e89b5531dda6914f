"""Invariant: no input makes a connection raise, hang or grow, and no request makes a handler fail.

    python fuzz/connection.py [seconds]

The default is 30 seconds. A failure is shrunk and printed, with exit code 1.

The harness is a whole server, in memory and without sockets. Peers send requests of every API and
version, valid and invalid ones, damaged, cut and joined, or random bytes. The test suite runs it
for seconds.
"""

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kohort.protocol.framing import CONTENT
from kohort.protocol.messages import encode
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.server.net import READ_AHEAD, WRITE_BATCH_SIZE, Connection

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import itertools

from protocol.wire_entities import VERSIONS, requests

SOCKET = socket.socket()  # that nothing is sent by
LARGEST_REQUEST = 20_000
SLOWEST_S = 2.0
"""Largest time for a handful of small requests; more is a hang."""


class Transport:
    """Transport of a connection, with a peer that reads at times."""

    def __init__(self) -> None:
        self.written = 0
        self.unread = 0
        self.largest_unread = 0
        self.is_closing = False
        self.reading = True
        self.connection: Connection | None = None

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("127.0.0.1", 40_000) if name == "peername" else None

    def write(self, data: bytes) -> None:
        assert not self.is_closing, "written after the end"
        assert isinstance(data, bytes)
        was_low = self.unread <= WRITE_BATCH_SIZE
        self.written += len(data)
        self.unread += len(data)
        self.largest_unread = max(self.largest_unread, self.unread)
        if was_low and self.unread > WRITE_BATCH_SIZE and self.connection is not None:
            self.connection.pause_writing()

    def peer_reads(self) -> None:
        was_high, self.unread = self.unread > WRITE_BATCH_SIZE, 0
        if was_high and self.connection is not None:
            self.connection.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.is_closing = True

    abort = close


# What peers send


def framed(case: tuple[int, int], body: bytes) -> bytes:
    api_key, version = case
    flexible = FLEXIBLE[case]
    head = (
        api_key.to_bytes(2, "big")
        + version.to_bytes(2, "big")
        + b"\0\0\0\7\0\4fuzz"
        + (b"\0" if flexible else b"")
    )
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


def _flexible() -> dict[tuple[int, int], bool]:
    from kohort.protocol.apis import APIS

    return {case: APIS[case[0]].flexible(case[1]) for case in VERSIONS}


FLEXIBLE = _flexible()
WEIRD = st.sampled_from(
    [b"\xff", b"\0", b"\x7f", b"\x80", b"\1", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff" * 9]
)


@st.composite
def damaged(draw: st.DrawFn, frames: st.SearchStrategy[bytes]) -> bytes:
    data = draw(frames)
    at = draw(st.integers(0, len(data)))
    weird = draw(WEIRD)
    return data[:at] + weird + data[at + draw(st.sampled_from([0, len(weird)])) :]


whole = st.sampled_from(VERSIONS).flatmap(
    lambda case: requests(*case).map(lambda entity: framed(case, encode(entity)))
)
resized = damaged(whole).map(
    lambda data: max(len(data) - CONTENT, 0).to_bytes(4, "big") + data[CONTENT:]
)
anything = st.one_of(whole, whole, resized, damaged(whole), st.binary(max_size=60))


@st.composite
def sessions(draw: st.DrawFn) -> list[bytes]:
    """Chunks of bytes that one peer sends."""
    stream = b"".join(draw(st.lists(anything, min_size=1, max_size=4)))
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    edges = [0, *cuts, len(stream)]
    return [stream[start:stop] for start, stop in itertools.pairwise(edges) if stop > start]


# What must hold


class Harness:
    """A server, and the checks around one peer."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._escaped)
        self.escaped: list[dict[str, Any]] = []
        config = {"storage": "memory", "group.initial.rebalance.delay.ms": 0, "num.partitions": 2}
        self.broker = Broker(
            Config(
                {**config, "socket.request.max.bytes": LARGEST_REQUEST, "listeners": "127.0.0.1:0"}
            )
        )
        self.loop.run_until_complete(self.broker.start())

    def close(self) -> None:
        self.loop.run_until_complete(self.broker.close())
        self.loop.close()

    def _escaped(self, _loop: object, context: dict[str, Any]) -> None:
        self.escaped.append(context)

    def run(self, chunks: list[bytes]) -> None:
        """Run one peer's session, from its first byte to its end."""
        began = time.monotonic()
        self.loop.run_until_complete(self._session(chunks))
        assert not self.escaped, self.escaped
        assert self.broker.listener.metrics.failed == 0, "a handler failed"
        assert time.monotonic() - began < SLOWEST_S, "hangs"

    async def _session(self, chunks: list[bytes]) -> None:
        listener = self.broker.listener
        listener.metrics.failed = 0
        if self.broker.topics.get("t") is None:
            self.broker.controller.topics.create("t", 2)
        transport = Transport()
        connection = listener.listeners[0].new_connection("127.0.0.1", SOCKET)
        assert connection is not None
        connection.connection_made(transport)  # type: ignore[arg-type]
        transport.connection = connection
        for chunk in chunks:
            for start in range(0, len(chunk), READ_AHEAD):
                if not transport.is_closing and transport.reading:
                    connection.data_received(chunk[start : start + READ_AHEAD])
            await asyncio.sleep(0)
            assert connection._queue.buffered <= LARGEST_REQUEST + CONTENT + 2 * READ_AHEAD, "grows"
            transport.peer_reads()
        await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert listener.statistics().connections == 0
        assert listener.statistics().memory_bytes == 0


@contextmanager
def harness() -> Iterator[Harness]:
    logging.disable(logging.CRITICAL)
    made = Harness()
    try:
        yield made
    finally:
        made.close()
        logging.disable(logging.NOTSET)


def fuzz(examples: int) -> None:
    """Search for a session that breaks the invariant; raises Hypothesis's error for it."""
    with harness() as made:

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(sessions())
        def no_session_breaks_it(chunks: list[bytes]) -> None:
            made.run(chunks)

        no_session_breaks_it()


def main() -> None:
    ends = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 30)
    rounds = 0
    while time.monotonic() < ends:
        fuzz(examples=500)
        rounds += 1
        print(f"{rounds * 500} sessions", flush=True)


if __name__ == "__main__":
    main()
