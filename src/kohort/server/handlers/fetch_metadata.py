"""Fetch (1) v12 of `__cluster_metadata`, by the nodes that follow this one (KIP-595)."""

import asyncio
from contextlib import suppress
from typing import Any

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.messages import response
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.server.topics import METADATA, storage_error


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Respond with batches from the offset on, as soon as there are some or the time is up."""
    ((wanted,),) = ([*topic.partitions] for topic in request.topics)
    topics = services.topics
    topics.followers.reached(exchange.connection, wanted.fetch_offset)
    exchange.when_connection_closes(topics.followers.gone)
    with suppress(TimeoutError):
        async with asyncio.timeout(request.max_wait.total_seconds()):
            await topics.logged_beyond(wanted.fetch_offset)
    records, error = b"", ErrorCode.none
    try:
        records = topics.logged(wanted.fetch_offset)
    except KafkaError as failure:
        error = failure.code
    except OSError as failure:
        error = storage_error(failure).code
    partition = {
        "partition_index": METADATA.partition,
        "error_code": error,
        "high_watermark": topics.metadata_end_offset,
        "records": records,
    }
    exchange.respond(
        response(
            exchange.api_key,
            exchange.version,
            responses=[{"topic": METADATA.topic, "partitions": [partition]}],
        )
    )
