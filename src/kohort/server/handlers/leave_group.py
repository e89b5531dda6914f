"""LeaveGroup (13) v0-5: members leave, or an administrator removes them.

v0-2 name one member, and its error is the response's; v1 adds the throttle time. v3 names many, by
member id or instance id (KIP-345), with an error for each; v4 is flexible; v5 brings reasons
(KIP-800).
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.requests import LeaveGroup, LeavingMember
from kohort.coordinator.responses import NONE, LeaveGroupResponse, LeftMember
from kohort.errors import ErrorCode
from kohort.protocol.messages import response as new_response
from kohort.server.handlers import cut_reason
from kohort.server.handlers.chunked import respond_large, submit_and_wait
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import LeaveGroupRequest, MemberIdentity

BATCH_SIZE: Final = 500
"""Members that leave by one decision of the shard, and so cause at most one rebalance."""


def handle(
    services: Services, exchange: Exchange, request: "LeaveGroupRequest"
) -> Coroutine[Any, Any, None] | None:
    """Hand the request to the group's shard."""
    if not services.access(exchange).group(request.group_id):
        _respond(exchange, LeaveGroupResponse(error=ErrorCode.group_authorization_failed))
        return None
    if exchange.version >= 3 and len(request.members) > BATCH_SIZE:
        return _leave_in_parts(services, exchange, request)
    members, respond = _members(exchange.version, request), exchange.callback(_respond)
    services.groups.submit(_request(exchange.version, request.group_id, members, respond))
    return None


async def _leave_in_parts(
    services: Services, exchange: Exchange, request: "LeaveGroupRequest"
) -> None:
    """Have `BATCH_SIZE` members leave after the others: each part is one decision of the shard."""
    following, members = iter(request.members), []
    error = NONE
    while error is NONE and (batch := tuple(islice(following, BATCH_SIZE))):
        leaving = tuple(_leaving(exchange.version, member) for member in batch)
        part = partial(_request, exchange.version, request.group_id, leaving)
        response = await submit_and_wait(services, part)
        error = response.error
        members += response.members
        await asyncio.sleep(0)
    fields = {"error_code": error, "members": map(_member, members)}
    await respond_large(services, exchange, fields, len(members))


def _request(
    version: int, group: str, members: tuple[LeavingMember, ...], respond: Callable[[Any], None]
) -> LeaveGroup:
    return LeaveGroup(on_response=respond, version=version, group=group, members=members)


def _members(version: int, request: "LeaveGroupRequest") -> tuple[LeavingMember, ...]:
    if version < 3:
        return (LeavingMember(member_id=request.member_id, instance_id=None),)
    return tuple(_leaving(version, member) for member in request.members)


def _leaving(version: int, member: "MemberIdentity") -> LeavingMember:
    return LeavingMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        reason=cut_reason(member.reason) if version >= 5 else None,
    )


def _respond(exchange: Exchange, response: LeaveGroupResponse) -> None:
    version, error = exchange.version, response.error
    if version < 3:
        if error is NONE and response.members:
            error = response.members[0].error
        exchange.respond(new_response(exchange.api_key, version, error_code=error))
        return
    members = map(_member, response.members)
    exchange.respond(new_response(exchange.api_key, version, error_code=error, members=members))


def _member(member: LeftMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "error_code": member.error,
    }
