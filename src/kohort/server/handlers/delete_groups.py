"""DeleteGroups (42) v0-2: groups without members, and all that they committed, are forgotten.

v2 is flexible. A group that is named twice has one result.
"""

from collections.abc import Sequence
from typing import Any

from kohort.coordinator.requests import DeleteGroup
from kohort.coordinator.responses import DeleteGroupResponse
from kohort.protocol.messages import response as new_response
from kohort.server.net import Exchange
from kohort.server.responses import ResponseCollector
from kohort.server.services import Services


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Ask the shard of every group, and respond once all of them have."""
    groups = tuple(dict.fromkeys(request.groups_names))
    collector = ResponseCollector(exchange.callback(_respond, groups))
    for group in groups:
        services.groups.submit(DeleteGroup(request_id=collector.callback(), group=group))
    collector.seal()


def _respond(
    exchange: Exchange, groups: Sequence[str], responses: Sequence[DeleteGroupResponse]
) -> None:
    results = [
        {"group_id": group, "error_code": response.error}
        for group, response in zip(groups, responses, strict=True)
    ]
    exchange.respond(new_response(exchange.api_key, exchange.version, results=results))
