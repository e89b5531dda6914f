"""JoinGroup (11) v0-9: join a group or its next round; parked until the join phase ends.

v1 adds the rebalance timeout (KIP-62; before it, the session timeout stands in), v2 the throttle
time, v4 the handshake for member ids (KIP-394), v5 static members (KIP-345); v6 is flexible; v7
names the protocol type and has null where no protocol was chosen (KIP-559), "" before; v8 brings
the reason (KIP-800), v9 SkipAssignment.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from kohort.coordinator.requests import JoinGroup
from kohort.coordinator.responses import JoinGroupResponse
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.server.authorization import DESCRIBE, TOPIC
from kohort.server.fetch import joined
from kohort.server.handlers import cut_reason, milliseconds
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import JoinGroupRequest

MAX_PROTOCOLS: Final = 1_000
"""Protocols of a member that take part in the vote; every join of the group looks at all of them.

Clients offer the assignors that they have, two or three.
"""


def handle(services: Services, exchange: Exchange, request: "JoinGroupRequest") -> None:
    """Hand the request to the group's shard."""
    version = exchange.version
    if not services.access(exchange).group(request.group_id):
        _respond(exchange, JoinGroupResponse(error=ErrorCode.group_authorization_failed))
        return
    exchange.when_connection_closes(services.groups.connection_closed)
    timeout = request.rebalance_timeout if version >= 1 else request.session_timeout
    services.groups.submit(
        JoinGroup(
            on_response=exchange.callback(_respond),
            version=version,
            group=request.group_id,
            client_id=exchange.client_id,
            client_host=exchange.client_host,
            session_timeout_ms=milliseconds(request.session_timeout),
            rebalance_timeout_ms=milliseconds(timeout),
            member_id=request.member_id,
            instance_id=request.group_instance_id if version >= 5 else None,
            protocol_type=request.protocol_type,
            protocols=_protocols(services, request),
            reason=cut_reason(request.reason) if version >= 8 else None,
            fresh_id="" if request.member_id else services.new_id(),
            connection=exchange.connection,
            may_describe=_may_describe(services, exchange) if services.has_authorizer else None,
        )
    )


def _may_describe(services: Services, exchange: Exchange) -> Callable[[str], bool]:
    # The API itself needs nothing of topics.
    return partial(services.access(exchange).may, DESCRIBE, TOPIC)


def _protocols(services: Services, request: "JoinGroupRequest") -> tuple[tuple[str, bytes], ...]:
    # What the coordinator refuses because it is too long need not be copied out of the request.
    longest = services.config["message.max.bytes"]
    return tuple(
        (
            protocol.name,
            protocol.metadata if len(protocol.metadata) > longest else bytes(protocol.metadata),
        )
        for protocol in islice(request.protocols, MAX_PROTOCOLS)
    )


def _respond(exchange: Exchange, response: JoinGroupResponse) -> None:
    body = response_fast_path.join_group(
        exchange.version,
        error=response.error,
        generation=response.generation,
        protocol_type=response.protocol_type,
        # Kafka's oddity: a protocol named "" is sent as none.
        protocol_name=response.protocol_name or None,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=[
            (member.member_id, member.instance_id, member.metadata) for member in response.members
        ],
    )
    exchange.respond_encoded(joined(body), (response.error,))
