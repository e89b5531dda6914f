"""DescribeQuorum (55) v0-2: the voters of `__cluster_metadata`: the controller alone.

v1 has the times of the last fetch, which for a leader are now; v2 has error messages, directory ids
and the addresses of the voters (KIP-853).
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.security import Endpoint
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import NOT_AUTHORIZED, refuse
from kohort.server.metadata import METADATA
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeQuorumRequest

LEADER_EPOCH: Final = 1
LISTENER: Final = "CONTROLLER"
UNKNOWN: Final = "This server does not host this topic-partition."


def handle(
    services: Services, exchange: Exchange, request: "DescribeQuorumRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        refuse(exchange, error_message=NOT_AUTHORIZED)
        return None
    if _asks_for_metadata(request):
        return respond_in_chunks(services, exchange, _quorum(services, exchange.peer.endpoint))
    return respond_in_chunks(services, exchange, _unknown(request))


def _asks_for_metadata(request: "DescribeQuorumRequest") -> bool:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    topic = request.topics[0]
    return (topic.topic_name, topic.partitions[0].partition_index) == METADATA


def _quorum(services: Services, endpoint: Endpoint) -> Steps:
    now, end = services.clock.timestamp(), services.controller.metadata.end_offset
    leader = services.nodes.node(services.nodes.controller(endpoint), endpoint)
    voter = {
        "replica_id": leader.id,
        "log_end_offset": end,
        "last_fetch_timestamp": now,
        "last_caught_up_timestamp": now,
    }
    partition = {
        "partition_index": METADATA.partition,
        "error_message": "",
        "leader_id": leader.id,
        "leader_epoch": LEADER_EPOCH,
        "high_watermark": end,
        "current_voters": [voter],
    }
    yield
    return {
        "error_message": "",
        "topics": [{"topic_name": METADATA.topic, "partitions": [partition]}],
        "nodes": [
            {
                "node_id": leader.id,
                "listeners": [{"name": LISTENER, "host": leader.host, "port": leader.port}],
            }
        ],
    }


def _unknown(request: "DescribeQuorumRequest") -> Steps:
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(
                {
                    "partition_index": partition.partition_index,
                    "error_code": ErrorCode.unknown_topic_or_partition,
                    "error_message": UNKNOWN,
                }
            )
            yield
        topics.append({"topic_name": topic.topic_name, "partitions": partitions})
        yield
    return {"error_message": "", "topics": topics}
