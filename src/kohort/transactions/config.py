"""Configuration of the transaction coordinator, by Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass
from typing import Final

MAX_MESSAGE_BYTES: Final = 1_048_588
"""Default of `message.max.bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCoordinatorConfig:
    """Times in ms, sizes in bytes."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: the longest timeout that a producer may request."""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    """`transactional.id.expiration.ms`: time after which an id without a transaction expires.
    """
    max_record_bytes: int = MAX_MESSAGE_BYTES
    """`message.max.bytes`: maximum record size; beyond it a transaction gets no more partitions."""
