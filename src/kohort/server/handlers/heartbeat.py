"""Heartbeat (12) v0-4: a member lives, and learns whether a rebalance is on.

v1 adds the throttle time, in front of the error; v3 static members (KIP-345); v4 is flexible.
"""

from typing import TYPE_CHECKING, Any

from kohort.coordinator.requests import Heartbeat
from kohort.coordinator.responses import HeartbeatResponse
from kohort.protocol import packed
from kohort.server.exchange import Exchange

if TYPE_CHECKING:
    from kohort.server.broker import Broker


def handle(broker: "Broker", exchange: Exchange, request: Any) -> None:
    """Hand the request to the group's shard."""
    broker.groups.submit(
        Heartbeat(
            request_id=exchange.later(_answer),
            group=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id if exchange.version >= 3 else None,
        )
    )


def _answer(exchange: Exchange, response: HeartbeatResponse) -> None:
    exchange.answer_packed(packed.heartbeat(exchange.version, response.error))
