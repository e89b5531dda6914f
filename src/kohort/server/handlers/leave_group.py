"""LeaveGroup (13) v0-5: members leave, or an administrator removes them.

v0-2 name one member, and its error is the response's; v1 adds the throttle time. v3 names many, by
member id or instance id (KIP-345), with an error for each; v4 is flexible; v5 brings reasons
(KIP-800).
"""

from typing import Any

from kohort.coordinator.requests import LeaveGroup, LeavingMember
from kohort.coordinator.responses import NONE, LeaveGroupResponse
from kohort.protocol.messages import response as new_response
from kohort.server.handlers import cut_reason
from kohort.server.net import Exchange
from kohort.server.services import Services


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Hand the request to the group's shard."""
    services.groups.submit(
        LeaveGroup(
            request_id=exchange.callback(_respond),
            version=exchange.version,
            group=request.group_id,
            members=_members(exchange.version, request),
        )
    )


def _members(version: int, request: Any) -> tuple[LeavingMember, ...]:
    if version < 3:
        return (LeavingMember(member_id=request.member_id, instance_id=None),)
    return tuple(
        LeavingMember(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            reason=cut_reason(each.reason) if version >= 5 else None,
        )
        for each in request.members
    )


def _respond(exchange: Exchange, response: LeaveGroupResponse) -> None:
    version, error = exchange.version, response.error
    if version < 3:
        if error is NONE and response.members:
            error = response.members[0].error
        exchange.respond(new_response(exchange.api_key, version, error_code=error))
        return
    members = [
        {
            "member_id": each.member_id,
            "group_instance_id": each.instance_id,
            "error_code": each.error,
        }
        for each in response.members
    ]
    exchange.respond(new_response(exchange.api_key, version, error_code=error, members=members))
