"""Requests that change the cluster, on a node that does not: the controller gets them (KIP-590)."""

from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from kohort.errors import KafkaError
from kohort.protocol.messages import encode, request_head, response_body_at
from kohort.server.cluster import RemoteController
from kohort.server.config import ResourceType
from kohort.server.handlers.modules import handler_module
from kohort.server.net import Exchange
from kohort.server.services import Services

FORWARDED: Final = frozenset(
    {
        "alter_client_quotas",
        "alter_configs",
        "alter_user_scram_credentials",
        "create_acls",
        "create_partitions",
        "create_topics",
        "delete_acls",
        "delete_topics",
        "incremental_alter_configs",
    }
)
"""APIs whose changes are the controller's."""
MAX_INLINE_BYTES: Final = 16 * 1024
"""Bytes of a request that is encoded in a thread."""
_THROTTLE_TIME: Final = 4
"""Bytes of the throttle time, with which each of the responses begins."""


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    controller = services.active_controller
    assert controller is not None
    if _is_of_loggers(request):
        handler: Any = handler_module(exchange.api_key)
        result: Coroutine[Any, Any, None] | None = handler.handle(services, exchange, request)
        return result
    return _forward(services, controller, exchange, request)


def _is_of_loggers(request: Any) -> bool:
    """Whether the request has levels of loggers, which each process has for itself."""
    resources = getattr(request, "resources", ())
    return any(resource.resource_type == ResourceType.BROKER_LOGGER for resource in resources)


async def _forward(
    services: Services, controller: RemoteController, exchange: Exchange, request: Any
) -> None:
    body = partial(encode, request)
    encoded = await services.heavy_work.run(body) if exchange.size > MAX_INLINE_BYTES else body()
    head = request_head(
        exchange.api_key, exchange.version, exchange.correlation_id, exchange.client_id
    )
    try:
        frame = await controller.forward((head, encoded), exchange.peer)
    except KafkaError as error:
        exchange.close_with_reason(error.message or "the controller cannot be reached")
        return
    body_at = response_body_at(exchange.api_key, exchange.version)
    exchange.throttle(int.from_bytes(frame[body_at : body_at + _THROTTLE_TIME], "big"))
    exchange.respond_encoded(frame[body_at:])
