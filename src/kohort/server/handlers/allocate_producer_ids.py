"""AllocateProducerIds (67) v0: ids for the producers of another node (KIP-730)."""

from typing import TYPE_CHECKING

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.apis import ALLOCATE_PRODUCER_IDS
from kohort.protocol.framing import MalformedError
from kohort.protocol.messages import response
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import AllocateProducerIdsRequest


async def handle(
    services: Services, exchange: Exchange, _request: "AllocateProducerIdsRequest"
) -> None:
    """Respond with a block of ids whose reservation is durable."""
    if not exchange.peer.is_node:
        raise MalformedError(f"API key {ALLOCATE_PRODUCER_IDS} is not served to clients")
    ids, error = range(0), ErrorCode.none
    try:
        ids = await services.controller.allocate_producer_ids()
    except KafkaError as failure:
        error = failure.code
    exchange.respond(
        response(
            ALLOCATE_PRODUCER_IDS,
            exchange.version,
            error_code=error,
            producer_id_start=ids.start,
            producer_id_len=len(ids),
        )
    )
