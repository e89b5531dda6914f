"""Transactions of an embedded server, as a test sees them."""

from collections.abc import Iterator
from dataclasses import dataclass

from kohort.server.broker import Broker
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """A transactional id."""

    transactional_id: str
    state: str
    """Kafka's name: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    """Partitions of the transaction that is open or ending."""


def read_transactions(broker: Broker) -> list[TransactionState]:
    """All transactional ids, by name. It is called on the loop of the server."""
    return sorted(_transactions(broker), key=lambda transaction: transaction.transactional_id)


def _transactions(broker: Broker) -> Iterator[TransactionState]:
    for shard in broker.transactions.shards():
        for transactional_id, metadata in shard.items():
            yield TransactionState(
                transactional_id=transactional_id,
                state=metadata.state.label,
                producer_id=metadata.producer_id,
                producer_epoch=metadata.producer_epoch,
                timeout_ms=metadata.timeout_ms,
                partitions=tuple(
                    sorted(
                        TopicPartition(topic, number)
                        for topic, numbers in metadata.partitions.items()
                        for number in numbers
                    )
                ),
            )
