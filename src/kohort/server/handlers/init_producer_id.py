"""InitProducerId (22) v0-5: an id for an idempotent producer (KIP-98).

v3 lets a producer that lost its sequence say who it was (KIP-360); without transactions it gets a
new id all the same. Ids are reserved in blocks, durably, so that none is given twice.

Transactions are not served yet. A transactional id is refused with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client takes for fatal and reports at once
(librdkafka would ask for ever after UNSUPPORTED_VERSION); why, is a line in the log.
"""

import logging
from typing import Any

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.messages import response
from kohort.server.logs import fields
from kohort.server.net import Exchange
from kohort.server.services import Services

API_KEY = 22
NONE = -1
_log = logging.getLogger("kohort.transactions")


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    try:
        _validate(exchange, request)
        producer_id = services.topics.producer_ids.next()
        await services.topics.durable()
    except KafkaError as error:
        refusal = response(
            API_KEY, exchange.version, error_code=error.code, producer_id=NONE, producer_epoch=NONE
        )
        exchange.respond(refusal)
        return
    exchange.respond(response(API_KEY, exchange.version, producer_id=producer_id, producer_epoch=0))


def _validate(exchange: Exchange, request: Any) -> None:
    """Raises KafkaError INVALID_REQUEST or TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
    known_id, known_epoch = (
        getattr(request, "producer_id", NONE),
        getattr(request, "producer_epoch", NONE),
    )
    if request.transactional_id == "" or (known_id == NONE) != (known_epoch == NONE):
        raise KafkaError(ErrorCode.invalid_request)
    if request.transactional_id is not None:
        _log.warning(
            "refused a transactional id: transactions are not served yet",
            extra=fields(client=exchange.client_id),
        )
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)
