"""A transaction of a producer that is gone, to start a test with.

It is made by the requests of a producer, so the coordinator and the logs have what a crash leaves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.client.config import ClientConfig
from kohort.client.net import Connection
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.batches import TRANSACTIONAL, Record, build
from kohort.protocol.error_codes import errors_in
from kohort.testing.embedded.embedded_server import EmbeddedServer

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The producer of an open transaction."""

    producer_id: int
    producer_epoch: int


async def open_transaction(
    server: EmbeddedServer,
    transactional_id: str,
    records: Mapping[Partition, Sequence[bytes]],
    offsets: Mapping[Partition, int],
    group: str,
    timeout_ms: int,
) -> OpenTransaction:
    """Leave a transaction open. Raises KafkaError, as a producer gets it."""
    bootstrap = server.broker.bootstrap
    config = ClientConfig(bootstrap=bootstrap, client_id=transactional_id)
    connection = await Connection.open(config.servers[0], config)
    try:
        producer = _Producer(connection, transactional_id)
        await producer.initialize(timeout_ms)
        if records:
            await producer.add_records(records, server.clock.timestamp())
        if offsets:
            await producer.add_offsets(group, offsets)
    finally:
        await connection.close()
    return OpenTransaction(producer.id, producer.epoch)


class _Producer:
    """Sends the requests of a producer of transaction version 0 and 1."""

    def __init__(self, connection: Connection, transactional_id: str) -> None:
        self._connection = connection
        self._transactional_id = transactional_id
        self.id = -1
        self.epoch = -1

    async def initialize(self, timeout_ms: int) -> None:
        response = await self._send(
            "init_producer_id",
            5,
            transaction_timeout_ms=timeout_ms,
            transactional_id=self._transactional_id,
        )
        self.id, self.epoch = response.producer_id, response.producer_epoch

    async def add_records(self, records: Mapping[Partition, Sequence[bytes]], now: int) -> None:
        await self._send(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                {"name": topic, "partitions": [partition]} for topic, partition in records
            ],
        )
        data = [
            {
                "name": topic,
                "partition_data": [{"index": partition, "records": self._batch(values, now)}],
            }
            for (topic, partition), values in records.items()
        ]
        await self._send(
            "produce",
            11,
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=data,
        )

    def _batch(self, values: Iterable[bytes], now: int) -> bytes:
        return build(
            [Record(None, value, (), now) for value in values],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )

    async def add_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        fields = {"transactional_id": self._transactional_id, "group_id": group}
        await self._send("add_offsets_to_txn", 3, **fields, **self._identity())
        topics = [
            {"name": topic, "partitions": [{"partition_index": number, "committed_offset": offset}]}
            for (topic, number), offset in offsets.items()
        ]
        await self._send("txn_offset_commit", 4, **fields, **self._identity(), topics=topics)

    def _identity(self) -> dict[str, int]:
        return {"producer_id": self.id, "producer_epoch": self.epoch}

    async def _send(self, api: str, version: int, **fields: Any) -> Any:
        """The response. Raises KafkaError for the first error in it."""
        response = await self._connection.send(api, max_version=version, **fields)
        for error in errors_in(response):
            raise KafkaError(ErrorCode(error), f"{api} of {self._transactional_id}")
        return response
