"""State of transactions at coordinators and leaders, by Kafka's names."""

from dataclasses import dataclass, field

from kohort.errors import KohortError
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id and its present producer."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    """Node id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListings:
    """The transactional ids of all brokers that responded, by name, and the others' errors."""

    transactions: tuple[TransactionListing, ...]
    failures: dict[int, KohortError] = field(default_factory=dict)
    """Error by node id; the transactional ids of these brokers are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id in the state of its coordinator."""

    coordinator: int
    """Node id."""
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    """Since 1970; None if no transaction has begun."""
    partitions: tuple[TopicPartition, ...]
    """Partitions of the transaction; while it ends, partitions without a marker so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer of a partition, in the state of the leader."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 after a marker that gave the producer a new epoch."""
    last_timestamp: int
    """In ms, of its last record."""
    coordinator_epoch: int
    """-1 before the first marker."""
    transaction_start_offset: int | None
    """Offset of the open transaction's first record; None if none is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that no coordinator will end."""

    partition: TopicPartition
    producer: ProducerState
