"""Fetch (1) v12 of `__cluster_metadata`, by the nodes that follow this one (KIP-595)."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.messages import response
from kohort.server.metadata import METADATA, storage_error
from kohort.server.metadata_log import LocalMetadataLog
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import FetchRequest


async def handle(services: Services, exchange: Exchange, request: "FetchRequest") -> None:
    """Respond with batches from the offset on, as soon as there are some or the time is up.

    An offset behind the end is OFFSET_OUT_OF_RANGE: who asks for it knows more than there is. A
    node without the log responds NOT_LEADER_OR_FOLLOWER.
    """
    ((requested,),) = ([*topic.partitions] for topic in request.topics)
    log, offset = services.controller.metadata_log, requested.fetch_offset
    if log is None:
        records, error, high_watermark = b"", ErrorCode.not_leader_or_follower, -1
    elif offset > log.end_offset:
        records, error, high_watermark = b"", ErrorCode.offset_out_of_range, log.durable_end
    else:
        followers = services.controller.writer.followers
        followers.update(exchange.connection, offset)
        exchange.when_connection_closes(followers.remove)
        with suppress(TimeoutError):
            async with asyncio.timeout(request.max_wait.total_seconds()):
                await log.wait_beyond(offset)
        records, error = _read(log, offset)
        high_watermark = log.durable_end
    partition = {
        "partition_index": METADATA.partition,
        "error_code": error,
        "high_watermark": high_watermark,
        "records": records,
    }
    exchange.respond(
        response(
            exchange.api_key,
            exchange.version,
            responses=[{"topic": METADATA.topic, "partitions": [partition]}],
        )
    )


def _read(log: LocalMetadataLog, offset: int) -> tuple[bytes, ErrorCode]:
    try:
        return log.read(offset), ErrorCode.none
    except KafkaError as failure:
        return b"", failure.code
    except OSError as failure:
        return b"", storage_error(failure).code
