"""AddOffsetsToTxn (25) v0-4: a transaction is going to commit offsets of a group (KIP-98).

Its partition of `__consumer_offsets` joins the transaction. Producers need it no more since
KIP-890: TxnOffsetCommit v5 adds the partition. v2 knows PRODUCER_FENCED (KIP-588), v3 is flexible,
v4 is the same.
"""

from typing import TYPE_CHECKING, Final

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.server.handlers import without_fenced
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.transactions.requests import TransactionalProducer

if TYPE_CHECKING:
    from kohort.protocol.requests import AddOffsetsToTxnRequest

PRODUCER_FENCED_SINCE: Final = 2


async def handle(services: Services, exchange: Exchange, request: "AddOffsetsToTxnRequest") -> None:
    access = services.access(exchange)
    if not access.transactional_id(request.transactional_id):
        _respond(exchange, ErrorCode.transactional_id_authorization_failed)
        return
    if not access.group(request.group_id):
        _respond(exchange, ErrorCode.group_authorization_failed)
        return
    topic, partition = services.groups.partition_of(request.group_id)
    error = await services.transactions.add_partitions_after_markers(
        TransactionalProducer(
            request.transactional_id, request.producer_id, request.producer_epoch
        ),
        {topic: frozenset({partition})},
        client_version=0,
    )
    if exchange.version < PRODUCER_FENCED_SINCE:
        error = without_fenced(error)
    _respond(exchange, error)


def _respond(exchange: Exchange, error: ErrorCode) -> None:
    exchange.respond(response(exchange.api_key, exchange.version, error_code=error))
