"""DeleteGroups (42) v0-2: groups without members, and all that they committed, are forgotten.

v2 is flexible. A group that is named twice has one result.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kohort.coordinator.requests import DeleteGroup
from kohort.coordinator.responses import DeleteGroupResponse
from kohort.server.handlers.in_steps import ask_each, respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Ask the shard of every group, and respond once all of them have."""
    groups = tuple(dict.fromkeys(request.groups_names))
    responses = await ask_each(services, (partial(_request, group) for group in groups))
    await respond_large(services, exchange, partial(_fields, groups, responses), len(groups))


def _fields(
    groups: Sequence[str], responses: Sequence[DeleteGroupResponse]
) -> dict[str, list[dict[str, Any]]]:
    results = [
        {"group_id": group, "error_code": response.error}
        for group, response in zip(groups, responses, strict=True)
    ]
    return {"results": results}


def _request(group: str, respond: Callable[[Any], None]) -> DeleteGroup:
    return DeleteGroup(request_id=respond, group=group)
