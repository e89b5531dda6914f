"""ListPartitionReassignments (46) v0: none, as one broker cannot reassign partitions."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kohort.protocol.messages import response
from kohort.server.handlers.cluster_authorization import NOT_AUTHORIZED, refuse
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import ListPartitionReassignmentsRequest

API_KEY = 46


def handle(
    services: Services,
    exchange: Exchange,
    request: "ListPartitionReassignmentsRequest",  # noqa: ARG001
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        refuse(exchange, error_message=NOT_AUTHORIZED)
        return None
    exchange.respond(response(API_KEY, exchange.version, topics=()))
    return None
