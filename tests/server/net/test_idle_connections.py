"""Connections that were idle for too long together are not all closed in one turn of the loop."""

import asyncio
import logging

from kohort.security import ANONYMOUS, Endpoint, Peer, SecurityProtocol
from kohort.server.net.connection_limits import ConnectionLimits
from kohort.server.net.open_connections import TICKS_PER_IDLE_TIME, OpenConnections
from kohort.server.net.rate_limited_log import RateLimitedLog

COUNT = 50_000
CLOSED_AT_ONCE = 100
LISTENER = Endpoint(
    listener="PLAINTEXT", security_protocol=SecurityProtocol.PLAINTEXT, host="host", port=9092
)
PEER = Peer(principal=ANONYMOUS, host="127.0.0.1", endpoint=LISTENER)


class Connection:
    """An open connection that counts how many were closed."""

    closed = 0
    descriptor = 3
    peer = PEER

    def __init__(self, last_active: int = 0, *, is_idle: bool = True) -> None:
        self.last_active = last_active
        self.is_idle = is_idle

    def close_with_reason(self, why: str) -> None:
        Connection.closed += 1

    def clear_cached_request(self) -> None: ...

    def drain(self) -> None: ...

    def abort(self) -> None: ...


async def test_idle_connections_are_closed_some_at_a_time() -> None:
    connections = OpenConnections(ConnectionLimits(), RateLimitedLog(logging.getLogger(__name__)))
    connections.ticks = TICKS_PER_IDLE_TIME
    kept = Connection(is_idle=False), Connection(TICKS_PER_IDLE_TIME)
    for each in (*kept, *(Connection() for _ in range(COUNT))):
        assert connections.admit(each)
    connections.start()
    longest = Connection.closed
    for _ in range(2 * COUNT // CLOSED_AT_ONCE):
        before = Connection.closed
        await asyncio.sleep(0)
        longest = max(longest, Connection.closed - before)
    assert (Connection.closed, longest) == (COUNT, CLOSED_AT_ONCE)
