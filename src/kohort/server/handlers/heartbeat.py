"""Heartbeat (12) v0-4: a member lives, and learns whether a rebalance is on.

v1 adds the throttle time, in front of the error; v3 static members (KIP-345); v4 is flexible.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.apis import BY_NAME
from kohort.protocol.request_fast_path import read_heartbeat
from kohort.server.net import Exchange, SameRequest
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import HeartbeatRequest

_USUAL_BYTES: Final = 512
"""Size of the largest frame that a connection keeps."""
HEARTBEAT: Final = BY_NAME["heartbeat"]


def handle(services: Services, exchange: Exchange, request: "HeartbeatRequest") -> None:
    """Ask the group's shard, and respond at once."""
    version = exchange.version
    if not services.access(exchange).group(request.group_id):
        error = ErrorCode.group_authorization_failed
        exchange.respond_encoded(response_fast_path.heartbeat(version, error), (error,))
        return
    instance_id = request.group_instance_id if version >= 3 else None
    error = services.groups.heartbeat(
        request.group_id, request.generation_id, request.member_id, instance_id
    )
    exchange.respond_encoded(response_fast_path.heartbeat(version, error), (error,))


def _from_bytes(services: Services, exchange: Exchange, frame: bytes, body_at: int) -> bool:
    """Handle a usual request, and have the connection recognise it when it comes again."""
    version = exchange.version
    member = read_heartbeat(frame, body_at, version) if len(frame) <= _USUAL_BYTES else None
    if member is None or not services.access(exchange).group(member[0]):
        return False
    heartbeat = services.groups.heartbeats_of(*member)
    exchange.cache_request(RepeatedHeartbeat(frame, version, heartbeat))
    error = heartbeat()
    exchange.respond_encoded(response_fast_path.heartbeat(version, error), (error,))
    return True


FAST_PATHS: Final = dict.fromkeys(
    range(HEARTBEAT.min_version, HEARTBEAT.max_version + 1), _from_bytes
)


class RepeatedHeartbeat(SameRequest):
    """A member's heartbeat between two rebalances: the same bytes but for the correlation id."""

    __slots__ = ("_heartbeat", "_success", "_version")

    api_key = HEARTBEAT.key

    def __init__(self, frame: bytes, version: int, heartbeat: Callable[[], ErrorCode]) -> None:
        """`heartbeat` asks the group's shard about the member of the request in `frame`."""
        super().__init__(frame)
        self._version = version
        self._heartbeat = heartbeat
        self._success = response_fast_path.heartbeat_frame(version, ErrorCode.none)

    def __repr__(self) -> str:
        return f"<RepeatedHeartbeat v{self._version}>"

    def submit(self, respond: Callable[[ErrorCode], None]) -> None:
        respond(self._heartbeat())

    def response(self, error: ErrorCode) -> bytes:
        before_id, behind_id = (
            response_fast_path.heartbeat_frame(self._version, error) if error else self._success
        )
        return before_id + self._id + behind_id
