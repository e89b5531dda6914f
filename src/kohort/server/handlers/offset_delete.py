"""OffsetDelete (47) v0: delete committed offsets of unsubscribed topics (KIP-496).

The handler itself sets the error of partitions that do not exist. The coordinator is asked all the
same, because an error of the whole group goes before them.
"""

from typing import Any

from kohort.coordinator.requests import OffsetDelete
from kohort.coordinator.responses import NONE, OffsetDeleteResponse
from kohort.errors import ErrorCode
from kohort.protocol.messages import response as new_response
from kohort.server.net import Exchange
from kohort.server.responses import PartitionResponses
from kohort.server.services import Services
from kohort.types import TopicPartition


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Refuse partitions that do not exist, and hand the rest to the group's shard."""
    responses = PartitionResponses()
    partitions = _existing(services, request, responses)
    services.groups.submit(
        OffsetDelete(
            request_id=exchange.callback(_respond, responses),
            group=request.group_id,
            partitions=partitions,
        )
    )


def _existing(
    services: Services, request: Any, responses: PartitionResponses
) -> tuple[TopicPartition, ...]:
    existing: list[TopicPartition] = []
    for asked in request.topics:
        topic = services.topics.get(asked.name)
        count = len(topic.partitions) if topic is not None else 0
        indexes = [each.partition_index for each in asked.partitions]
        here = [index for index in indexes if 0 <= index < count]
        if topic is None or len(here) < len(indexes):
            missing = (index for index in indexes if not 0 <= index < count)
            responses.add_errors((asked.name, None), missing, ErrorCode.unknown_topic_or_partition)
        responses.expect((asked.name, None), len(here))
        existing += [TopicPartition(asked.name, index) for index in here]
    return tuple(existing)


def _respond(
    exchange: Exchange, responses: PartitionResponses, response: OffsetDeleteResponse
) -> None:
    topics = []
    if response.error is NONE:
        topics = [
            {
                "name": name,
                "partitions": [{"partition_index": p, "error_code": e} for p, e in partitions],
            }
            for name, _, partitions in responses.merged_with(response.results)
        ]
    entity = new_response(
        exchange.api_key, exchange.version, error_code=response.error, topics=topics
    )
    exchange.respond(entity)
