"""The transaction coordinator of a process: every shard of `__transaction_state`."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.log.base import Log
from kohort.runtime.clock import Clock
from kohort.runtime.markers import MarkerLimiter, MarkerWriter, write_markers
from kohort.runtime.shards import Shards
from kohort.runtime.transaction_host import TransactionHost
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import Partitions, TransactionMetadata
from kohort.transactions.requests import (
    AddPartitions,
    AddPartitionsResponse,
    ExpireTransactionalIds,
    Request,
    TransactionalProducer,
    VerifyPartitions,
    VerifyPartitionsResponse,
)
from kohort.transactions.result import TransactionTimesOut
from kohort.transactions.shard import Shard
from kohort.transactions.transitions import BUMPS_EPOCH
from kohort.types import TopicPartition

_EXPIRATION_CHUNK: Final = 200
"""Transactional ids, of up to 32 KiB, that are checked for expiry in one turn."""
_MARKERS_TIMEOUT_S: Final = 0.1
"""Time that the next transaction waits for markers, as its first Produce v12 in Kafka."""


class TransactionVerifier(ABC):
    """Requests of partition leaders to the coordinator of a transaction."""

    @abstractmethod
    async def add_partitions(
        self, producer: TransactionalProducer, partitions: Partitions, client_version: int
    ) -> ErrorCode:
        """Add partitions to a transaction. Returns the error, or `none`."""

    @abstractmethod
    async def verify_partitions(
        self, producer: TransactionalProducer, partitions: Partitions
    ) -> VerifyPartitionsResponse:
        """The partitions that are not in the open transaction."""

    @abstractmethod
    async def markers_written(self, transactional_id: str, timeout_s: float) -> None:
        """Wait until the markers of the last transaction are written, at most `timeout_s`."""

    async def verify(
        self, producer: TransactionalProducer, partition: TopicPartition, *, add: bool
    ) -> ErrorCode:
        """Verify that a partition is in the open transaction; with `add`, add it.

        Returns `none`, TRANSACTION_ABORTABLE if it is not in it, or an error of the transaction.
        """
        partitions = {partition.topic: frozenset({partition.partition})}
        if add:
            return await self.add_partitions(producer, partitions, BUMPS_EPOCH)
        error, missing = await self.verify_partitions(producer, partitions)
        return ErrorCode.transaction_abortable if missing else error


class TransactionCoordinator(Shards[TransactionHost, TransactionTimesOut], TransactionVerifier):
    """All transactional ids that this process coordinates.

    `on_response` of a request passed to `submit` is a function that is called with the response.
    Everything runs on the loop thread.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        config: TransactionCoordinatorConfig,
        clock: Clock,
        *,
        new_producer_id: Callable[[], int],
        marker_writer: MarkerWriter,
        waits_for_disk: bool = False,
        expiration_interval_ms: int = 3_600_000,
        reload_after_s: float = 1.0,
    ) -> None:
        """`new_producer_id` returns a fresh producer id, or raises KafkaError.

        `reload_after_s`: delay before a failed shard is reloaded; doubled with every failure.
        """
        super().__init__(clock)
        self._expiration_s = expiration_interval_ms / 1_000
        self._config = config
        self._new_producer_id = new_producer_id
        write = partial(write_markers, marker_writer, MarkerLimiter())
        context = self._host_context(clock, waits_for_disk, reload_after_s)
        self._hosts = [
            TransactionHost(
                log,
                self._new_shard,
                context,
                write_markers=write,
            )
            for log in logs
        ]

    def configure(self, config: TransactionCoordinatorConfig) -> None:
        """Use other settings from now on."""
        self._config = config
        for host in self._hosts:
            host.configure(config)

    def _new_shard(self) -> Shard:
        return Shard(self._config, self._new_producer_id)

    # --- requests and events ---

    def submit(self, request: Request) -> None:
        """Submit a request to the shard of its transactional id.

        `request.on_response` is called with the response, now or later.
        """
        self._timers.had_request = True
        self._host(request.transactional_id).submit(request)

    async def ask(self, request: Request) -> Any:
        """The response to a request; its `on_response` is ignored."""
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def respond(outcome: object) -> None:
            if not response.done():  # it is cancelled when the connection is lost
                response.set_result(outcome)

        self.submit(replace(request, on_response=respond))
        return await response

    async def add_partitions(
        self, producer: TransactionalProducer, partitions: Partitions, client_version: int
    ) -> ErrorCode:
        request = AddPartitions(
            on_response=None,
            **producer._asdict(),
            partitions=partitions,
            client_version=client_version,
        )
        response: AddPartitionsResponse = await self.ask(request)
        return response.error

    async def add_partitions_after_markers(
        self, producer: TransactionalProducer, partitions: Partitions, client_version: int
    ) -> ErrorCode:
        """`add_partitions` after the end of the last transaction; waits at most 100 ms.

        Kafka returns CONCURRENT_TRANSACTIONS at once; librdkafka then retries AddOffsetsToTxn only
        after 100 ms, although the markers are written in a millisecond.
        """
        host = self._host(producer.transactional_id)
        await host.markers_written(producer.transactional_id, _MARKERS_TIMEOUT_S)
        return await self.add_partitions(producer, partitions, client_version)

    async def markers_written(self, transactional_id: str, timeout_s: float) -> None:
        if not await self._host(transactional_id).markers_written(transactional_id, timeout_s):
            await asyncio.sleep(timeout_s)

    async def verify_partitions(
        self, producer: TransactionalProducer, partitions: Partitions
    ) -> VerifyPartitionsResponse:
        request = VerifyPartitions(on_response=None, **producer._asdict(), partitions=partitions)
        response: VerifyPartitionsResponse = await self.ask(request)
        return response

    async def _expire(self) -> None:
        """Expire idle ids, in turns that take a few milliseconds each."""
        while True:
            await asyncio.sleep(self._expiration_s)
            for host in self._hosts:
                ids = tuple(host.shard.transactions)
                for start in range(0, len(ids), _EXPIRATION_CHUNK):
                    host.post(ExpireTransactionalIds(ids[start : start + _EXPIRATION_CHUNK]))
                    await host.appended()

    def _fire(self, host: TransactionHost, timer: TransactionTimesOut) -> None:
        host.post(timer)

    # --- queries ---

    def shards(self) -> Iterator[Mapping[str, TransactionMetadata]]:
        """The transactional ids of each shard, read-only."""
        for host in self._hosts:
            yield host.shard.transactions

    def statistics(self) -> Mapping[str, Any]:
        """Counts: shards by state, transactional ids, open transactions, ending transactions."""
        return {
            "shards": self._states(),
            "transactional_ids": sum(len(ids) for ids in self.shards()),
            "open": sum(host.shard.open for host in self._hosts),
            "ending": sum(host.ending for host in self._hosts),
        }
