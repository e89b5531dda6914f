"""Heartbeat (12) v0-4: a member lives, and learns whether a rebalance is on.

v1 adds the throttle time, in front of the error; v3 static members (KIP-345); v4 is flexible.
"""

from typing import TYPE_CHECKING, Any

from kohort.protocol import packed
from kohort.server.exchange import Exchange

if TYPE_CHECKING:
    from kohort.server.broker import Broker


def handle(broker: "Broker", exchange: Exchange, request: Any) -> None:
    """Ask the group's shard, and answer at once."""
    version = exchange.version
    instance_id = request.group_instance_id if version >= 3 else None
    error = broker.groups.heartbeat(request.group_id, request.generation_id, request.member_id, instance_id)
    exchange.answer_packed(packed.heartbeat(version, error), (error,))
