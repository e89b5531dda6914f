"""DeleteGroups (42) v0-3: groups without members, and all that they committed, are forgotten.

v2 is flexible. v3 has a text for each error. As in Kafka, errors of a single group have none, only
those of its coordinator. A group that is named twice has one result.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.requests import DeleteGroup
from kohort.errors import ErrorCode
from kohort.server.handlers.chunked import respond_large, submit_chunked
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import DeleteGroupsRequest

_BATCH_SIZE: Final = 500
"""Groups whose shards are asked before the first of them has responded."""
_TEXTS: Final = {
    ErrorCode.coordinator_load_in_progress: "The coordinator is loading and hence can't process "
    "requests.",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.not_coordinator: "This is not the correct coordinator.",
}
"""Kafka's texts for the errors of a coordinator."""


async def handle(services: Services, exchange: Exchange, request: "DeleteGroupsRequest") -> None:
    """Ask the shard of every group, and respond once all of them have."""
    results: list[dict[str, Any]] = []
    seen: set[str] = set()
    slices, following = TimeSlices(), iter(request.groups_names)
    while batch := tuple(islice(following, _BATCH_SIZE)):
        groups = [group for group in dict.fromkeys(batch) if group not in seen]
        seen.update(groups)
        access = services.access(exchange)
        allowed = [group for group in groups if access.group(group)]
        responses = await submit_chunked(services, (partial(_request, group) for group in allowed))
        errors = {group: reply.error for group, reply in zip(allowed, responses, strict=True)}
        for group in groups:
            error = errors.get(group, ErrorCode.group_authorization_failed)
            results.append(
                {"group_id": group, "error_code": error, "error_message": _TEXTS.get(error)}
            )
        await slices.give_way()
    await respond_large(services, exchange, {"results": results}, len(results))


def _request(group: str, respond: Callable[[Any], None]) -> DeleteGroup:
    return DeleteGroup(on_response=respond, group=group)
