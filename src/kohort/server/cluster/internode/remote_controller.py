"""Requests of a worker to the controller."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.apis import ALLOCATE_PRODUCER_IDS, BY_NAME, ENVELOPE
from kohort.protocol.packing import pack_compact_string, pack_varint
from kohort.security import Peer
from kohort.server.cluster.internode.connection import NodeConnection
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.controller import NewTopic

_CREATE_TOPICS: Final = BY_NAME["create_topics"].key
_CREATE_TOPICS_VERSION: Final = 7
_TIMEOUT_MS: Final = 30_000
RETRY_TIMEOUT_S: Final = 10.0
"""Time for which requests are retried while the controller restarts."""
_RETRY_AFTER_S: Final = 0.05


class RemoteController:
    """Client of the controller: forwards changes, gets producer ids, creates topics."""

    def __init__(self, node_id: int, connection: NodeConnection) -> None:
        """`node_id` is that of this node."""
        self._node_id = node_id
        self._connection = connection

    async def forward(self, request: Sequence[bytes], peer: Peer) -> bytes:
        """The response to a client's request, both with header and without size (KIP-590).

        The controller judges the client as if it had come to it. Raises KafkaError NOT_CONTROLLER
        if it is not there for long.
        """
        envelope = _envelope(request, peer)
        response = await self._retry_until_response(
            lambda: self._connection.ask_encoded(ENVELOPE, 0, envelope)
        )
        _raise(response.error_code)
        data: bytes = response.response_data
        return data

    async def allocate_producer_ids(self) -> range:
        """Reserve a block of producer ids. Raises KafkaError."""
        response = await self._ask(
            ALLOCATE_PRODUCER_IDS, 0, broker_id=self._node_id, broker_epoch=-1
        )
        _raise(response.error_code)
        start: int = response.producer_id_start
        return range(start, start + response.producer_id_len)

    async def create_topics(self, new_topics: Sequence[NewTopic]) -> list[KafkaError | None]:
        """Create topics independently; returns an error or None for each. Raises KafkaError."""
        response = await self._ask(
            _CREATE_TOPICS,
            _CREATE_TOPICS_VERSION,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [{"name": key, "value": text} for key, text in configs.items()],
                }
                for name, partitions, configs in new_topics
            ],
            timeout=_TIMEOUT_MS,
        )
        errors = {
            topic.name: KafkaError(topic.error_code, topic.error_message or "")
            for topic in response.topics
            if topic.error_code
        }
        return [errors.get(name) for name, *_ in new_topics]

    async def _ask(self, api_key: int, version: int, **fields: Any) -> Any:
        return await self._retry_until_response(
            lambda: self._connection.ask(api_key, version, **fields)
        )

    async def _retry_until_response(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request until it has a response, as Kafka's brokers do, for `RETRY_TIMEOUT_S`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RETRY_TIMEOUT_S
        while True:
            try:
                return await ask()
            except NodeUnreachableError as error:
                if loop.time() > deadline:
                    raise KafkaError(
                        ErrorCode.not_controller, f"The controller cannot be reached: {error}"
                    ) from error
                await asyncio.sleep(_RETRY_AFTER_S)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.close()


def _envelope(request: Sequence[bytes], peer: Peer) -> Sequence[bytes]:
    """Body of Envelope v0, with a request that may be large."""
    size = pack_varint(1 + sum(map(len, request)))
    no_tags = b"\0"
    end = pack_compact_string(str(peer.principal)) + pack_compact_string(peer.host) + no_tags
    return (size, *request, end)


def _raise(code: ErrorCode) -> None:
    if code:
        raise KafkaError(code)
