"""EndTxn (26) v0-5: commits or aborts the open transaction of a producer (KIP-98).

The response says that the decision is in the log; the markers follow. v2 knows PRODUCER_FENCED
(KIP-588), v3 is flexible, v4 knows TRANSACTION_ABORTABLE, v5 gives the producer the id and epoch of
its next transaction (KIP-890).
"""

from typing import TYPE_CHECKING, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.handlers import respond_with_producer
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.transactions.requests import EndTransaction, ProducerResponse

if TYPE_CHECKING:
    from kohort.protocol.requests import EndTxnRequest

PRODUCER_FENCED_SINCE: Final = 2
PRODUCER_ID_SINCE: Final = 5


async def handle(services: Services, exchange: Exchange, request: "EndTxnRequest") -> None:
    try:
        if not services.access(exchange).transactional_id(request.transactional_id):
            raise KafkaError(ErrorCode.transactional_id_authorization_failed)
        ended = await _ended(services, exchange.version, request)
    except KafkaError as error:
        ended = ProducerResponse(error.code)
    respond_with_producer(exchange, ended, fenced_since=PRODUCER_FENCED_SINCE)


async def _ended(services: Services, version: int, request: "EndTxnRequest") -> ProducerResponse:
    """Raises KafkaError INVALID_REQUEST, and KAFKA_STORAGE_ERROR if no ids can be reserved."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.invalid_request)
    bumps_epoch = version >= PRODUCER_ID_SINCE
    if bumps_epoch:  # the epoch may be the last of its producer id
        await services.controller.producer_ids.fill()
    ended: ProducerResponse = await services.transactions.ask(
        EndTransaction(
            on_response=None,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            commit=request.committed,
            bumps_epoch=bumps_epoch,
        )
    )
    return ended
