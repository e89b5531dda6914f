"""The response to a request that comes between two messages of SASL.

It has ILLEGAL_SASL_STATE where the response has an error of its own. Kafka also names each topic,
group or resource of the request with that error. Here bodies of requests are not parsed before the
client has authenticated, so the lists are empty.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.protocol.messages import response

_REFUSED: Final = {
    "error_code": ErrorCode.illegal_sasl_state,
    "error_message": "Unexpected Kafka request during SASL authentication.",
}
_OTHER_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "find_coordinator": {"node_id": -1, "port": -1},
    "init_producer_id": {"producer_epoch": -1},
    "describe_client_quotas": {"entries": None},
    "consumer_group_heartbeat": {"error_message": None},
}
"""Values that Kafka has in other fields, where they are not the default of the schema."""


def illegal_sasl_state(api_key: int, version: int) -> Any:
    """kio's response, with the error where it has a field for it."""
    values = {**_REFUSED, **_OTHER_DEFAULTS.get(APIS[api_key].name, {})}
    for name in ("error_message", "error_code"):
        with suppress(TypeError):  # no version has that field
            return response(api_key, version, **values)
        del values[name]
    return response(api_key, version, **values)
