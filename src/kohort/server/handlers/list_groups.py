"""ListGroups (16) v0-5: every group that there is.

v1 adds the throttle time; v3 is flexible; v4 shows states and filters by them (KIP-518), v5 types
(KIP-848).
"""

from typing import Any

from kohort.coordinator.requests import ListGroups
from kohort.coordinator.responses import ListGroupsResponse
from kohort.protocol.messages import response as new_response
from kohort.server.net import Exchange
from kohort.server.services import Services


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Hand the request to all shards."""
    version = exchange.version
    services.groups.submit(
        ListGroups(
            request_id=exchange.callback(_respond),
            states=request.states_filter if version >= 4 else (),
            types=request.types_filter if version >= 5 else (),
        )
    )


def _respond(exchange: Exchange, response: ListGroupsResponse) -> None:
    groups = [
        {
            "group_id": each.group,
            "protocol_type": each.protocol_type,
            "group_state": each.state,
            "group_type": each.type,
        }
        for each in response.groups
    ]
    entity = new_response(
        exchange.api_key, exchange.version, error_code=response.error, groups=groups
    )
    exchange.respond(entity)
