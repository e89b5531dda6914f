"""SyncGroup (14) v0-5: assignments from the leader to all members; parked until it sent them.

v1 adds the throttle time, v3 static members (KIP-345); v4 is flexible; v5 names protocol type and
protocol, for the coordinator to check and to confirm (KIP-559).
"""

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any

from kohort.coordinator.requests import SyncGroup
from kohort.coordinator.responses import SyncGroupResponse
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.server.handlers.chunked import CHUNK
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import SyncGroupRequest, SyncGroupRequestAssignment


def handle(
    services: Services, exchange: Exchange, request: "SyncGroupRequest"
) -> Coroutine[Any, Any, None] | None:
    """Hand the request to the group's shard."""
    # As in Kafka, what the version must name is looked at first.
    named = exchange.version < 5 or None not in (request.protocol_type, request.protocol_name)
    if named and not services.access(exchange).group(request.group_id):
        _respond(exchange, SyncGroupResponse(error=ErrorCode.group_authorization_failed))
        return None
    if len(request.assignments) > CHUNK:
        return _submit_later(services, exchange, request)
    _submit(services, exchange, request, tuple(map(_assignment, request.assignments)))
    return None


async def _submit_later(
    services: Services, exchange: Exchange, request: "SyncGroupRequest"
) -> None:
    assignments = await in_slices(_assignments(request))
    _submit(services, exchange, request, assignments)


def _assignments(
    request: "SyncGroupRequest",
) -> Generator[None, None, tuple[tuple[str, bytes], ...]]:
    assignments = []
    for assignment in request.assignments:
        assignments.append(_assignment(assignment))
        yield
    return tuple(assignments)


def _assignment(assignment: "SyncGroupRequestAssignment") -> tuple[str, bytes]:
    return assignment.member_id, assignment.assignment


def _submit(
    services: Services,
    exchange: Exchange,
    request: "SyncGroupRequest",
    assignments: tuple[tuple[str, bytes], ...],
) -> None:
    version = exchange.version
    services.groups.submit(
        SyncGroup(
            on_response=exchange.callback(_respond),
            version=version,
            group=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id if version >= 3 else None,
            protocol_type=request.protocol_type if version >= 5 else None,
            protocol_name=request.protocol_name if version >= 5 else None,
            assignments=assignments,
        )
    )


def _respond(exchange: Exchange, response: SyncGroupResponse) -> None:
    body = response_fast_path.sync_group(
        exchange.version,
        response.error,
        response.protocol_type,
        response.protocol_name,
        response.assignment,
    )
    exchange.respond_encoded(body, (response.error,))
