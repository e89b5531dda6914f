"""The producer id of an idempotent producer (Kafka's InitProducerId API, KIP-98 and KIP-360)."""

import asyncio
from collections.abc import Iterable
from typing import Final

from kohort.client.backoff import retrying
from kohort.client.cluster import Cluster
from kohort.client.errors import UnsupportedVersionError
from kohort.client.produce.batch import NOBODY, ProduceBatch, ProducerId
from kohort.client.produce.request import VERSIONS
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

_MAX_EPOCH: Final = 2**15 - 1
_ADVICE: Final = {
    ErrorCode.cluster_authorization_failed: (
        "; this principal may not WRITE to any topic; grant it that"
    ),
}


class ProducerIds:
    """The id of one producer: requested on first use, with a new epoch after lost sequences."""

    def __init__(self, cluster: Cluster, *, enabled: bool) -> None:
        self._cluster = cluster
        self._enabled = enabled
        self._current = NOBODY
        self._lock = asyncio.Lock()

    transactional_id: None = None
    failure: None = None
    versions = VERSIONS

    def may_send(self, _tp: TopicPartition) -> bool:
        return True

    async def admit(self, partitions: Iterable[TopicPartition]) -> None:
        """No-op."""

    def sending(self) -> None:
        """No-op."""

    def given_up(self, batch: ProduceBatch, error: Exception) -> None:
        """No-op: the partition counts its sequences."""

    @property
    def current(self) -> ProducerId | None:
        """The id; NOBODY without idempotence, None while it has to be requested (`acquire`)."""
        return self._current if not self._enabled or self._current != NOBODY else None

    async def acquire(self) -> None:
        """Request an id if there is none.

        Raises GaveUpError, KafkaError, UnsupportedVersionError.
        """
        async with self._lock:
            if self.current is None:
                self._current = await retrying(
                    self._ask,
                    operation="producer id for an idempotent producer",
                    timeout_ms=self._cluster.config.default_api_timeout_ms,
                    backoff=self._cluster.backoff(),
                )

    def renew(self, producer_id: ProducerId, code: ErrorCode) -> bool:
        """The sequences under this id are lost: use the next epoch, or another id.

        Partitions that are not affected continue with the old epoch until they are idle.
        """
        if producer_id == self._current:  # else the next one is there already
            bumped = ProducerId(producer_id.id, producer_id.epoch + 1)
            is_refused = code is ErrorCode.invalid_producer_epoch or bumped.epoch >= _MAX_EPOCH
            self._current = NOBODY if is_refused else bumped
        return True

    async def _ask(self) -> ProducerId:
        connection = await self._cluster.any_connection()
        try:
            response = await connection.send(
                "init_producer_id",
                transactional_id=None,
                transaction_timeout_ms=2**31 - 1,
                max_version=5,
            )
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(
                f"{error}; set enable_idempotence=False for such a broker"
            ) from None
        if response.error_code is not ErrorCode.none:
            advice = _ADVICE.get(response.error_code, "")
            raise KafkaError(response.error_code, f"to InitProducerId{advice}")
        return ProducerId(response.producer_id, response.producer_epoch)
