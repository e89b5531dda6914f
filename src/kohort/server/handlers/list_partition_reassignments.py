"""ListPartitionReassignments (46) v0: `kafka-topics --describe` asks; with one broker there never
are any.
"""

from typing import TYPE_CHECKING, Any

from kohort.protocol.messages import response
from kohort.server.net import Exchange

if TYPE_CHECKING:
    from kohort.server.broker import Broker

API_KEY = 46


def handle(broker: "Broker", exchange: Exchange, request: Any) -> None:  # noqa: ARG001
    exchange.answer(response(API_KEY, exchange.version, topics=()))
