"""Handles the results of batches that were sent: delivered, retried, split in two, or given up.

A broker that refuses a sequence has lost earlier ones, or awaits one that will be sent again. The
rules for that are in `ProducePartition`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kohort.client.backoff import Backoff
from kohort.client.cluster import Cluster
from kohort.client.config import ProducerConfig
from kohort.client.errors import UNKNOWN_TOPIC, WRONG_LEADER, DeliveryTimeoutError, is_retriable
from kohort.client.produce.batch import ProduceBatch
from kohort.client.produce.counters import ProduceCounters
from kohort.client.produce.delivery import NO_OFFSET
from kohort.client.produce.identity import ProducerIdentity
from kohort.client.produce.partition import ProducePartition
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

_SEQUENCES_LOST: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)
_UNKNOWN: Final = ErrorCode.unknown_server_error


class DeliveryResults:
    """The results of one producer.

    `on_settled` is called with each finished batch, also a split one.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        ids: ProducerIdentity,
        counters: ProduceCounters,
        on_settled: Callable[[ProduceBatch], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._ids = ids
        self._counters = counters
        self._on_settled = on_settled
        self._backoffs: dict[TopicPartition, Backoff] = {}

    def handle_response(
        self, partition: ProducePartition, batch: ProduceBatch, response: Any
    ) -> None:
        """Handle the broker's response for the batch; None if the response lacks it."""
        if response is None:
            self.failed(
                partition,
                batch,
                KafkaError(_UNKNOWN, f"{batch.tp} is missing in the broker's response"),
            )
        elif response.error_code is ErrorCode.none:
            stamp = (
                -1
                if response.log_append_time is None
                else round(response.log_append_time.timestamp() * 1000)
            )
            self._succeeded(partition, batch, response.base_offset, stamp)
        elif response.error_code is ErrorCode.duplicate_sequence_number:
            self._succeeded(partition, batch, NO_OFFSET, -1)
        else:
            message = getattr(response, "error_message", None)
            error = KafkaError(
                response.error_code, f"{batch.tp}: {message}" if message else str(batch.tp)
            )
            self._refused(partition, batch, error)

    def _succeeded(
        self, partition: ProducePartition, batch: ProduceBatch, base_offset: int, stamp: int
    ) -> None:
        partition.succeeded(batch)
        self._counters.delivered(batch, asyncio.get_running_loop().time())
        self._backoffs.pop(batch.tp, None)
        batch.succeed(base_offset, stamp)
        self._on_settled(batch)

    def _refused(self, partition: ProducePartition, batch: ProduceBatch, error: KafkaError) -> None:
        if error.code is ErrorCode.message_too_large and batch.count > 1:
            self._counters.split_batches += 1
            partition.replace(batch, batch.split())
            self._on_settled(batch)
            return
        if error.code in _SEQUENCES_LOST and batch.sequence >= 0:
            is_first = partition.is_first(batch)
            is_renewed = is_first and self._ids.renew(batch.producer, error.code)
            if is_renewed:
                partition.reset_sequences()
            if is_renewed or not is_first:
                self._retry(partition, batch, error)
                return
        if error.code in WRONG_LEADER or error.code in UNKNOWN_TOPIC:
            self._cluster.stale(batch.tp.topic)
        self.failed(partition, batch, error)

    def failed(self, partition: ProducePartition, batch: ProduceBatch, error: Exception) -> None:
        """Handle a failure: no response, or one that says that the batch is not in the log."""
        if is_retriable(error):
            self._retry(partition, batch, error)
        else:
            partition.failed(batch)
            self.give_up(batch, error)

    def _retry(self, partition: ProducePartition, batch: ProduceBatch, error: Exception) -> None:
        batch.last_error = error
        if (failure := self._ids.failure) is not None:
            partition.failed(batch)
            self.give_up(batch, failure)
            return
        now = asyncio.get_running_loop().time()
        if now >= batch.created + self._config.delivery_timeout_s:
            partition.failed(batch)
            self.give_up(batch, self.timed_out(batch))
            return
        self._counters.resent_batches += 1
        backoff = self._backoffs.setdefault(batch.tp, self._cluster.backoff())
        partition.retry(batch, now + backoff.after(error, f"producing to {batch.tp}"))

    def give_up(self, batch: ProduceBatch, error: Exception) -> None:
        """Give the batch up."""
        self._ids.given_up(batch, error)
        self._counters.failed_records += batch.count
        batch.fail(error)
        self._on_settled(batch)

    def timed_out(self, batch: ProduceBatch) -> DeliveryTimeoutError:
        """The error that lists the attempts."""
        limit = f"{self._config.delivery_timeout_s:g} s"
        tried = f"{batch.attempts} attempts" if batch.attempts else "it was never sent"
        last = f", the last: {batch.last_error}" if batch.last_error else ""
        return DeliveryTimeoutError(
            batch.tp, f"{batch.tp}: {batch.count} records not delivered in {limit}; {tried}{last}"
        )
