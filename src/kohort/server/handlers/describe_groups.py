"""DescribeGroups (15) v0-6: state and members of groups.

v1 adds the throttle time, v3 the operations that the caller may do (KIP-430), v4 static members
(KIP-345); v5 is flexible; v6 has error 69 with a message for a group that is not there (KIP-1043),
which is "Dead" before.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.requests import DescribeGroup
from kohort.coordinator.responses import NONE, DescribedMember, DescribeGroupResponse
from kohort.errors import ErrorCode
from kohort.server.authorization import GROUP
from kohort.server.handlers.chunked import (
    collect_in_chunks,
    respond_large,
    split_in_chunks,
    submit_chunked,
)
from kohort.server.net import Exchange
from kohort.server.responses import OPERATIONS_NOT_REQUESTED
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeGroupsRequest

_BATCH_SIZE: Final = 100
"""Groups whose shards are asked before the first of them has responded."""
MAX_REPEATED_SIZE: Final = 10_000
"""Members in a response up to which a group that is named again is described again."""


async def handle(services: Services, exchange: Exchange, request: "DescribeGroupsRequest") -> None:
    """Ask the shard of every group, and respond once all of them have.

    In a large response, a group that is named again gets INVALID_REQUEST: a kilobyte of names must
    not become hundreds of megabytes.
    """
    version = exchange.version
    wants_operations = version >= 3 and request.include_authorized_operations
    access = services.access(exchange)
    allowed, denied = await split_in_chunks(request.groups, access.group)
    error = ErrorCode.group_authorization_failed
    rows = await collect_in_chunks(
        denied, lambda group: _row(_refused(group, error), OPERATIONS_NOT_REQUESTED)
    )
    members = 0
    seen: set[str] = set()
    slices, following = TimeSlices(), iter(allowed)
    while batch := tuple(islice(following, _BATCH_SIZE)):
        repeated = seen.intersection(batch) if members > MAX_REPEATED_SIZE else ()
        new = [group for group in batch if group not in repeated]
        responses = iter(
            await submit_chunked(services, (partial(_request, version, group) for group in new))
        )
        for group in batch:
            described = (
                _refused(group, ErrorCode.invalid_request) if group in repeated else next(responses)
            )
            members += len(described.members)
            operations = (
                access.operations(GROUP, group) if wants_operations else OPERATIONS_NOT_REQUESTED
            )
            rows.append(_row(described, operations))
        seen.update(batch)
        await slices.give_way()
    await respond_large(services, exchange, {"groups": rows}, len(rows) + members)


def _request(version: int, group: str, respond: Callable[[Any], None]) -> DescribeGroup:
    return DescribeGroup(on_response=respond, version=version, group=group)


def _refused(group: str, error: ErrorCode) -> DescribeGroupResponse:
    return DescribeGroupResponse(error=error, group=group)


def _row(response: DescribeGroupResponse, operations: int) -> dict[str, Any]:
    return {
        "error_code": response.error,
        "error_message": response.error_message,
        "group_id": response.group,
        "group_state": response.state,
        "protocol_type": response.protocol_type,
        "protocol_data": response.protocol,
        "members": map(_member, response.members),
        "authorized_operations": operations if response.error is NONE else OPERATIONS_NOT_REQUESTED,
    }


def _member(member: DescribedMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata,
        "member_assignment": member.assignment,
    }
