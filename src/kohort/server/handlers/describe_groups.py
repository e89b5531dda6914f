"""DescribeGroups (15) v0-6: state and members of groups.

v1 adds the throttle time, v3 the operations that the caller may do (KIP-430), v4 static members
(KIP-345); v5 is flexible; v6 has error 69 with a message for a group that is not there (KIP-1043),
which is "Dead" before.
"""

from collections.abc import Sequence
from typing import Any

from kohort.coordinator.requests import DescribeGroup
from kohort.coordinator.responses import NONE, DescribedMember, DescribeGroupResponse
from kohort.protocol.messages import response as new_response
from kohort.server.net import Exchange
from kohort.server.responses import GROUP_OPERATIONS, OPERATIONS_NOT_REQUESTED, ResponseCollector
from kohort.server.services import Services


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Ask the shard of every group, and respond once all of them have."""
    version = exchange.version
    asked = version >= 3 and request.include_authorized_operations
    collector = ResponseCollector(
        exchange.callback(_respond, GROUP_OPERATIONS if asked else OPERATIONS_NOT_REQUESTED)
    )
    for group in request.groups:
        services.groups.submit(
            DescribeGroup(request_id=collector.callback(), version=version, group=group)
        )
    collector.seal()


def _respond(
    exchange: Exchange, operations: int, responses: Sequence[DescribeGroupResponse]
) -> None:
    groups = [
        {
            "error_code": each.error,
            "error_message": each.error_message,
            "group_id": each.group,
            "group_state": each.state,
            "protocol_type": each.protocol_type,
            "protocol_data": each.protocol,
            "members": map(_member, each.members),
            "authorized_operations": operations if each.error is NONE else OPERATIONS_NOT_REQUESTED,
        }
        for each in responses
    ]
    exchange.respond(new_response(exchange.api_key, exchange.version, groups=groups))


def _member(of: DescribedMember) -> dict[str, Any]:
    return {
        "member_id": of.member_id,
        "group_instance_id": of.instance_id,
        "client_id": of.client_id,
        "client_host": of.client_host,
        "member_metadata": of.metadata,
        "member_assignment": of.assignment,
    }
