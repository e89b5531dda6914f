"""InitProducerId (22) v0-5: an id for an idempotent or transactional producer (KIP-98).

v3 lets a producer that lost its sequence say who it was (KIP-360); without transactions it gets a
new id all the same. v4 knows PRODUCER_FENCED (KIP-588), where older versions have
INVALID_PRODUCER_EPOCH; v5 is the same. v6 is for two-phase commits (KIP-939), which Kafka 4.4 does
not serve either.

Ids are reserved in blocks, durably, so that none is given twice.
"""

from typing import TYPE_CHECKING

from kohort.errors import ErrorCode, KafkaError
from kohort.server.authorization import Access
from kohort.server.handlers import milliseconds, respond_with_producer
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.transactions.requests import InitProducerId, ProducerResponse

if TYPE_CHECKING:
    from kohort.protocol.requests import InitProducerIdRequest

NONE = -1
PRODUCER_FENCED_SINCE = 4


async def handle(services: Services, exchange: Exchange, request: "InitProducerIdRequest") -> None:
    try:
        _authorize(services.access(exchange), request.transactional_id)
        initialized = await _initialized(services, request)
    except KafkaError as error:
        initialized = ProducerResponse(error.code)
    respond_with_producer(exchange, initialized, fenced_since=PRODUCER_FENCED_SINCE)


def _authorize(access: Access, transactional_id: str | None) -> None:
    """Raises KafkaError TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED."""
    if transactional_id is not None:
        if not access.transactional_id(transactional_id):
            raise KafkaError(ErrorCode.transactional_id_authorization_failed)
    elif not (access.some_topic() or access.cluster()):
        raise KafkaError(ErrorCode.cluster_authorization_failed)


async def _initialized(services: Services, request: "InitProducerIdRequest") -> ProducerResponse:
    """Raises KafkaError INVALID_REQUEST, and KAFKA_STORAGE_ERROR if no ids can be reserved."""
    known_id: int = getattr(request, "producer_id", NONE)
    known_epoch: int = getattr(request, "producer_epoch", NONE)
    if request.transactional_id == "" or (known_id == NONE) != (known_epoch == NONE):
        raise KafkaError(ErrorCode.invalid_request)
    ids = services.controller.producer_ids
    await ids.fill()
    if request.transactional_id is None:
        return ProducerResponse(ErrorCode.none, ids.next(), 0)
    initialized: ProducerResponse = await services.transactions.ask(
        InitProducerId(
            on_response=None,
            transactional_id=request.transactional_id,
            timeout_ms=milliseconds(request.transaction_timeout),
            producer_id=known_id,
            producer_epoch=known_epoch,
        )
    )
    return initialized
