"""Heartbeat (12) v0-4: a member lives, and learns whether a rebalance is on.

v1 adds the throttle time, in front of the error; v3 static members (KIP-345); v4 is flexible.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kohort.protocol import packed
from kohort.protocol.apis import BY_NAME
from kohort.protocol.hot import read_heartbeat
from kohort.server.exchange import Exchange

if TYPE_CHECKING:
    from kohort.server.broker import Broker

_USUAL_BYTES: Final = 512
"""Of a frame; what is longer must not fill a cache that counts entries."""
HEARTBEAT: Final = BY_NAME["heartbeat"].key


def handle(broker: "Broker", exchange: Exchange, request: Any) -> None:
    """Ask the group's shard, and answer at once."""
    version = exchange.version
    instance_id = request.group_instance_id if version >= 3 else None
    error = broker.groups.heartbeat(request.group_id, request.generation_id, request.member_id, instance_id)
    exchange.answer_packed(packed.heartbeat(version, error), (error,))


@lru_cache(maxsize=16_384)
def _read(body: bytes) -> tuple[str, int, str, str | None] | None:
    # A member says the same from one rebalance to the next.
    return read_heartbeat(body, 0)


def _answer_now(broker: "Broker", data: bytes, at: int) -> bytes | None:
    """`handle` from the bytes of a usual v4 request to the body of its answer; None if it is not usual."""
    request = _read(data[at:]) if len(data) <= _USUAL_BYTES else None
    if request is None:
        return None
    error = broker.groups.heartbeat(*request)
    if error:
        broker.listener.errors[HEARTBEAT, error] += 1
    return packed.heartbeat(4, error)


ANSWERS_NOW: Final = {4: _answer_now}
"""By version: what the connection tries before `handle`."""
