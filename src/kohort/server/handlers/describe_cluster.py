"""DescribeCluster (60) v0-2: who is in the cluster, for admin clients (KIP-700).

v1 asks for brokers or for controllers (KIP-919); this is a broker's port. v2 may ask for fenced
brokers; there are none.
"""

from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.server.handlers import metadata
from kohort.server.net import Exchange
from kohort.server.responses import OPERATIONS_NOT_REQUESTED
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeClusterRequest

API_KEY = 60
BROKERS, CONTROLLERS = 1, 2


def handle(services: Services, exchange: Exchange, request: "DescribeClusterRequest") -> None:
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type != BROKERS:
        exchange.respond(
            response(API_KEY, exchange.version, cluster_id="", **_wrong_endpoint(endpoint_type))
        )
        return
    wants_operations = request.include_cluster_authorized_operations
    endpoint = exchange.peer.endpoint
    exchange.respond(
        response(
            API_KEY,
            exchange.version,
            cluster_id=services.cluster_id,
            controller_id=services.nodes.controller(endpoint),
            brokers=[
                {"broker_id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
                for node in services.nodes.all(endpoint)
            ],
            cluster_authorized_operations=(
                metadata.cluster_operations(services.access(exchange))
                if wants_operations
                else OPERATIONS_NOT_REQUESTED
            ),
        )
    )


def _wrong_endpoint(endpoint_type: int) -> dict[str, Any]:
    if endpoint_type == CONTROLLERS:
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint "
            "of type CONTROLLER"
        )
        return {"error_code": ErrorCode.mismatched_endpoint_type, "error_message": message}
    return {
        "error_code": ErrorCode.unsupported_endpoint_type,
        "error_message": f"Unsupported endpoint type {endpoint_type}",
    }
