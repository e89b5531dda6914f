"""ConsumerGroupHeartbeat (68) v0-1: a member joins, lives and learns its assignment (KIP-848).

v1 adds the regular expression, and a member chooses its id itself; in v0 the server may choose it.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.consumer_records import Partitions
from kohort.coordinator.requests import ConsumerGroupHeartbeat
from kohort.coordinator.responses import NONE, ConsumerGroupHeartbeatResponse
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import response as new_response
from kohort.protocol.request_fast_path import read_steady_heartbeat
from kohort.server.handlers import milliseconds
from kohort.server.handlers.chunked import CHUNK, split_in_chunks
from kohort.server.net import Exchange, SameRequest
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import ConsumerGroupHeartbeatRequest

_USUAL_BYTES: Final = 512
"""Size of the largest frame that is read from its bytes."""


def handle(
    services: Services, exchange: Exchange, request: "ConsumerGroupHeartbeatRequest"
) -> Coroutine[Any, Any, None] | None:
    """Hand the request to the group's shard, if the client may."""
    if not services.serves_consumer_groups:
        _respond(exchange, ConsumerGroupHeartbeatResponse(error=ErrorCode.unsupported_version))
    elif len(request.subscribed_topic_names or ()) > CHUNK:
        return _handle_large(services, exchange, request)
    elif not services.access(exchange).group(request.group_id):
        _refuse(exchange, ErrorCode.group_authorization_failed)
    elif not all(map(services.access(exchange).topic, request.subscribed_topic_names or ())):
        _refuse(exchange, ErrorCode.topic_authorization_failed)
    else:
        _submit(services, exchange, request)
    return None


async def _handle_large(
    services: Services, exchange: Exchange, request: "ConsumerGroupHeartbeatRequest"
) -> None:
    """`handle` of a member that subscribes to very many topics."""
    access = services.access(exchange)
    if not access.group(request.group_id):
        _refuse(exchange, ErrorCode.group_authorization_failed)
        return
    _, denied = await split_in_chunks(request.subscribed_topic_names or (), access.topic)
    if denied:
        _refuse(exchange, ErrorCode.topic_authorization_failed)
    else:
        _submit(services, exchange, request)


def _refuse(exchange: Exchange, error: ErrorCode) -> None:
    _respond(exchange, ConsumerGroupHeartbeatResponse(error=error))


def _submit(
    services: Services, exchange: Exchange, request: "ConsumerGroupHeartbeatRequest"
) -> None:
    version = exchange.version
    member_id = request.member_id
    if version == 0 and request.member_epoch == 0 and not member_id.strip():
        member_id = urlsafe_b64encode(UUID(services.new_id()).bytes).rstrip(b"=").decode()
    services.groups.submit(
        ConsumerGroupHeartbeat(
            on_response=exchange.callback(_respond),
            group=request.group_id,
            member_id=member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
            topics=request.subscribed_topic_names,
            regex=request.subscribed_topic_regex if version >= 1 else None,
            assignor=request.server_assignor,
            owned=_owned(request.topic_partitions),
            client_id=exchange.client_id,
            client_host=exchange.client_host,
            may_describe=(
                services.access(exchange).quietly().topic if services.has_authorizer else None
            ),
        )
    )


def _from_bytes(services: Services, exchange: Exchange, frame: bytes, body_at: int) -> bool:
    """Respond at once to a member that has nothing new to say or to learn.

    The connection recognises the request when it comes again.
    """
    if len(frame) > _USUAL_BYTES:
        return False
    fields = read_steady_heartbeat(frame, body_at, exchange.version)
    if fields is None:
        return False
    group, epoch, member_id, instance_id = fields
    if not services.access(exchange).group(group):
        return False
    member = SteadyHeartbeat(
        group, member_id, epoch, instance_id, exchange.client_id, exchange.client_host
    )
    heartbeat = services.groups.steady_heartbeats_of(member)
    interval_ms = heartbeat()
    if interval_ms is None:
        return False
    exchange.cache_request(RepeatedSteadyHeartbeat(frame, member, heartbeat, interval_ms))
    body = response_fast_path.steady_heartbeat(member_id, epoch, interval_ms)
    exchange.respond_encoded(body, (NONE,))
    return True


FAST_PATHS: Final = dict.fromkeys((0, 1), _from_bytes)


class RepeatedSteadyHeartbeat(SameRequest):
    """A member's heartbeat from one change of its assignment to the next."""

    __slots__ = ("_heartbeat", "_interval_ms", "_member", "_response")

    api_key = BY_NAME["consumer_group_heartbeat"].key

    def __init__(
        self,
        frame: bytes,
        member: SteadyHeartbeat,
        heartbeat: Callable[[], int | None],
        interval_ms: int,
    ) -> None:
        """`heartbeat` keeps `member` alive, whose request is in `frame`, and returns the interval.

        It returns None if the request may have another effect. `interval_ms` is the last interval.
        """
        super().__init__(frame)
        self._member = member
        self._heartbeat = heartbeat
        self._set_interval(interval_ms)

    def __repr__(self) -> str:
        return f"<RepeatedSteadyHeartbeat epoch={self._member.member_epoch}>"

    def _set_interval(self, interval_ms: int) -> None:
        member = self._member
        self._interval_ms = interval_ms
        self._response = response_fast_path.steady_heartbeat_frame(
            member.member_id, member.member_epoch, interval_ms
        )

    def matches(self, frame: bytes) -> bool:
        if not super().matches(frame):
            return False
        interval_ms = self._heartbeat()
        if interval_ms is None:
            return False
        if interval_ms != self._interval_ms:
            self._set_interval(interval_ms)
        return True

    def submit(self, respond: Callable[[ErrorCode], None]) -> None:
        respond(NONE)

    def response(self, error: ErrorCode) -> bytes:  # noqa: ARG002
        before_id, behind_id = self._response
        return before_id + self._id + behind_id


def _owned(topics: Sequence[Any] | None) -> Partitions | None:
    """Topic id → partitions. A topic that the client cannot name has no id, and is left out."""
    if topics is None:
        return None
    owned: dict[UUID, list[int]] = {}
    for topic in topics:
        if topic.topic_id is not None:
            owned.setdefault(topic.topic_id, []).extend(topic.partitions)
    return {topic_id: tuple(partitions) for topic_id, partitions in owned.items()}


def _respond(exchange: Exchange, response: ConsumerGroupHeartbeatResponse) -> None:
    assigned = response.assignment
    exchange.respond(
        new_response(
            exchange.api_key,
            exchange.version,
            error_code=response.error,
            error_message=response.error_message,
            member_id=response.member_id,
            member_epoch=response.member_epoch,
            heartbeat_interval=response.heartbeat_interval_ms,
            assignment=None if assigned is None else {"topic_partitions": _assignment(assigned)},
        )
    )


def _assignment(assigned: Partitions) -> list[Mapping[str, Any]]:
    return [{"topic_id": topic, "partitions": partitions} for topic, partitions in assigned.items()]
