"""ListGroups (16) v0-5: every group that there is.

A node of a cluster that has not taken all that it is to lead, or has lost its lease, responds with
COORDINATOR_NOT_AVAILABLE, which is retriable: groups would be missing.

v1 adds the throttle time; v3 is flexible; v4 shows states and filters by them (KIP-518), v5 types
(KIP-848).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.classic import Group, State
from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from kohort.coordinator.requests import ListGroups
from kohort.coordinator.responses import ListedGroup, ListGroupsResponse
from kohort.errors import ErrorCode
from kohort.server.cluster import check_group_availability
from kohort.server.handlers.chunked import (
    NewRequest,
    collect_in_chunks,
    count_in_chunks,
    respond_large,
    submit_and_wait,
)
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import ListGroupsRequest

KNOWN: Final = (
    *dict.fromkeys(state.lower() for state in (*State, *ConsumerGroupState)),
    Group.TYPE,
    ConsumerGroup.TYPE,
)
"""Names of states and types that a group may have."""


async def handle(services: Services, exchange: Exchange, request: "ListGroupsRequest") -> None:
    """Hand the request to all shards."""
    version = exchange.version
    states = await _known(request.states_filter) if version >= 4 else ()
    types = await _known(request.types_filter) if version >= 5 else ()
    listed = await _listed(services, partial(_request, states, types))
    access = services.access(exchange).quietly()
    groups = listed.groups
    if not access.cluster():
        groups = tuple(
            await collect_in_chunks(
                groups,
                lambda listed_group: listed_group if access.group(listed_group.group) else None,
            )
        )
    fields = {"error_code": listed.error, "groups": map(_row, groups)}
    await respond_large(services, exchange, fields, len(groups))


async def _listed(services: Services, new_request: NewRequest) -> ListGroupsResponse:
    if check_group_availability(
        services.nodes, services.topics, services.groups, services.node_id
    ).not_yet_opened:
        return ListGroupsResponse(error=ErrorCode.coordinator_not_available)
    response: ListGroupsResponse = await submit_and_wait(services, new_request)
    return response


def _request(
    states: tuple[str, ...], types: tuple[str, ...], respond: Callable[[Any], None]
) -> ListGroups:
    return ListGroups(on_response=respond, states=states, types=types)


async def _known(names: Sequence[str]) -> tuple[str, ...]:
    """The names of a filter that a group may have, or one that none has: the filter lists nothing.

    The filter is empty, and lists everything, only if it has no names at all.
    """
    if len(names) <= len(KNOWN):
        return tuple(names)
    times = await count_in_chunks(name.lower() for name in names)
    return tuple(name for name in KNOWN if name in times) or (names[0],)


def _row(listed: ListedGroup) -> dict[str, Any]:
    return {
        "group_id": listed.group,
        "protocol_type": listed.protocol_type,
        "group_state": listed.state,
        "group_type": listed.type,
    }
