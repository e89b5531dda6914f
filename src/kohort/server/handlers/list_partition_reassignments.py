"""ListPartitionReassignments (46) v0: none, as one broker cannot reassign partitions."""

from typing import Any

from kohort.protocol.messages import response
from kohort.server.net import Exchange
from kohort.server.services import Services

API_KEY = 46


def handle(services: Services, exchange: Exchange, request: Any) -> None:  # noqa: ARG001
    exchange.respond(response(API_KEY, exchange.version, topics=()))
