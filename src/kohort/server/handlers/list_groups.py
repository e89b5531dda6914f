"""ListGroups (16) v0-5: every group that there is.

v1 adds the throttle time; v3 is flexible; v4 shows states and filters by them (KIP-518), v5 types
(KIP-848).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kohort.coordinator.classic import Group, State
from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from kohort.coordinator.requests import ListGroups
from kohort.coordinator.responses import ListedGroup
from kohort.server.handlers.in_steps import ask, collected, counted, respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services

KNOWN: Final = (
    *dict.fromkeys(state.lower() for state in (*State, *ConsumerGroupState)),
    Group.TYPE,
    ConsumerGroup.TYPE,
)
"""Names of states and types that a group may have."""


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Hand the request to all shards."""
    version = exchange.version
    states = await _known(request.states_filter) if version >= 4 else ()
    types = await _known(request.types_filter) if version >= 5 else ()
    listed = await ask(services, partial(_request, states, types))
    access = services.access(exchange).quietly()
    groups = listed.groups
    if not access.cluster():
        groups = await collected(groups, lambda each: each if access.group(each.group) else None)
    fields = {"error_code": listed.error, "groups": map(_row, groups)}
    await respond_large(services, exchange, fields, len(groups))


def _request(
    states: tuple[str, ...], types: tuple[str, ...], respond: Callable[[Any], None]
) -> ListGroups:
    return ListGroups(request_id=respond, states=states, types=types)


async def _known(names: Sequence[str]) -> tuple[str, ...]:
    """The names of a filter that a group may have, or one that none has: the filter lists nothing.

    The filter is empty, and lists everything, only if it has no names at all.
    """
    if len(names) <= len(KNOWN):
        return tuple(names)
    times = await counted(name.lower() for name in names)
    return tuple(name for name in KNOWN if name in times) or (names[0],)


def _row(of: ListedGroup) -> dict[str, Any]:
    return {
        "group_id": of.group,
        "protocol_type": of.protocol_type,
        "group_state": of.state,
        "group_type": of.type,
    }
