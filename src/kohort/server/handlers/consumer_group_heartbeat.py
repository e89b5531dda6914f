"""ConsumerGroupHeartbeat (68) v0-1: a member joins, lives and learns its assignment (KIP-848).

v1 adds the regular expression, and a member chooses its id itself; in v0 the server may choose it.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.consumer_records import Partitions
from kohort.coordinator.requests import ConsumerGroupHeartbeat
from kohort.coordinator.responses import NONE, ConsumerGroupHeartbeatResponse
from kohort.protocol import response_fast_path
from kohort.protocol.messages import response as new_response
from kohort.protocol.request_fast_path import read_steady_heartbeat
from kohort.server.handlers import milliseconds
from kohort.server.net import Exchange
from kohort.server.services import Services

_USUAL_BYTES: Final = 512
"""Size of the largest frame that is read from its bytes."""


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Hand the request to the group's shard."""
    version = exchange.version
    member_id = request.member_id
    if version == 0 and request.member_epoch == 0 and not member_id.strip():
        member_id = urlsafe_b64encode(UUID(services.new_id()).bytes).rstrip(b"=").decode()
    services.groups.submit(
        ConsumerGroupHeartbeat(
            request_id=exchange.callback(_respond),
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
        )
    )


def _from_bytes(services: Services, exchange: Exchange, frame: bytes, body_at: int) -> bool:
    """Respond at once to a member that has nothing new to say or to learn."""
    if len(frame) > _USUAL_BYTES:
        return False
    member = read_steady_heartbeat(frame, body_at, exchange.version)
    if member is None:
        return False
    group, epoch, member_id, instance_id = member
    interval_ms = services.groups.steady_heartbeat(
        SteadyHeartbeat(
            group, member_id, epoch, instance_id, exchange.client_id, exchange.client_host
        )
    )
    if interval_ms is None:
        return False
    body = response_fast_path.steady_heartbeat(member_id, epoch, interval_ms)
    exchange.respond_encoded(body, (NONE,))
    return True


FAST_PATHS: Final = dict.fromkeys((0, 1), _from_bytes)


def _owned(topics: Sequence[Any] | None) -> Partitions | None:
    """Topic id → partitions. A topic that the client cannot name has no id, and is left out."""
    if topics is None:
        return None
    owned: dict[UUID, list[int]] = {}
    for each in topics:
        if each.topic_id is not None:
            owned.setdefault(each.topic_id, []).extend(each.partitions)
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
    return [{"topic_id": topic, "partitions": each} for topic, each in assigned.items()]
