"""Heartbeat (12) v0-4: a member lives, and learns whether a rebalance is on.

v1 adds the throttle time, in front of the error; v3 static members (KIP-345); v4 is flexible.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.apis import BY_NAME
from kohort.protocol.request_fast_path import read_heartbeat
from kohort.server.net import Ask, Exchange

if TYPE_CHECKING:
    from kohort.server.broker import Broker

_USUAL_BYTES: Final = 512
"""Of a frame; a connection keeps no longer one."""
HEARTBEAT: Final = BY_NAME["heartbeat"].key


def handle(broker: "Broker", exchange: Exchange, request: Any) -> None:
    """Ask the group's shard, and answer at once."""
    version = exchange.version
    instance_id = request.group_instance_id if version >= 3 else None
    error = broker.groups.heartbeat(
        request.group_id, request.generation_id, request.member_id, instance_id
    )
    exchange.answer_packed(response_fast_path.heartbeat(version, error), (error,))


def _read(broker: "Broker", data: bytes, at: int) -> Ask | None:
    """`handle` of a usual v4 request, for as often as it comes; None if it is not usual."""
    request = read_heartbeat(data, at) if len(data) <= _USUAL_BYTES else None
    return (
        None
        if request is None
        else partial(_ask, broker, partial(broker.groups.heartbeat, *request))
    )


def _ask(broker: "Broker", heartbeat: Callable[[], ErrorCode]) -> bytes:
    error = heartbeat()
    if error:
        broker.listener.errors[HEARTBEAT, error] += 1
    return response_fast_path.heartbeat(4, error)


REPEATED: Final = {4: _read}
"""By version: what the connection tries before `handle`."""
