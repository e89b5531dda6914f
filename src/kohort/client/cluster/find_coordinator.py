"""Finds coordinators of groups and transactional ids (Kafka's FindCoordinator API, v0-v6).

Since v4 one request has many keys (KIP-699). Before v4 one request per key is sent, all at once.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from kohort.client.cluster.metadata import BrokerNode
from kohort.client.errors import UnsupportedVersionError
from kohort.client.net import Connection
from kohort.errors import ErrorCode, KafkaError

GROUP: Final = 0
TRANSACTION: Final = 1
_BATCHED_SINCE: Final = 4


async def find_coordinators(
    connection: Connection, keys: Sequence[str], key_type: int
) -> dict[str, BrokerNode | KafkaError]:
    """The coordinator of each key, or its error.

    Raises BrokerUnreachableError, UnsupportedVersionError.
    """
    version = connection.version("find_coordinator")
    if version is None:
        raise UnsupportedVersionError("the broker does not support find_coordinator")
    if version < _BATCHED_SINCE:
        responses = await asyncio.gather(*(_find_one(connection, key, key_type) for key in keys))
        return {key: _outcome(key, response) for key, response in zip(keys, responses, strict=True)}
    response = await connection.send("find_coordinator", key_type=key_type, coordinator_keys=keys)
    outcomes = {
        coordinator.key: _outcome(coordinator.key, coordinator)
        for coordinator in response.coordinators
    }
    missing = KafkaError(
        ErrorCode.coordinator_not_available, "it is missing in the broker's response"
    )
    return {key: outcomes.get(key, missing) for key in keys}


async def _find_one(connection: Connection, key: str, key_type: int) -> Any:
    return await connection.send(
        "find_coordinator", max_version=_BATCHED_SINCE - 1, key=key, key_type=key_type
    )


def _outcome(key: str, response: Any) -> BrokerNode | KafkaError:
    if response.error_code is not ErrorCode.none:
        return KafkaError(
            response.error_code,
            getattr(response, "error_message", None) or f"coordinator of {key!r}",
        )
    return BrokerNode(response.node_id, response.host, response.port)
