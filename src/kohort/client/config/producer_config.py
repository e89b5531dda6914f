"""The configuration of a producer: Java's names and defaults, checked on creation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from kohort.client.config.client_config import MAX_MS, validate_flag, validate_int, validate_text
from kohort.errors import ConfigError
from kohort.protocol.compression import Codec

Acks = Literal["all", -1, 0, 1, "0", "1", "-1"]
Partitioner = Callable[[str, bytes | None, int], int | None]
"""(topic, key, number of partitions) -> partition; None: the sticky partition."""
PartitionerName = Literal[
    "random",
    "consistent",
    "consistent_random",
    "murmur2",
    "murmur2_random",
    "fnv1a",
    "fnv1a_random",
    "round_robin",
]

_ACKS: Final[dict[object, int]] = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_MAX_COMPRESSION_LEVEL: Final = {Codec.GZIP: 9, Codec.ZSTD: 22}
_REMEMBERED: Final = 5
"""Batches of a producer id that a broker remembers, to recognise duplicates."""
_MAX_IN_FLIGHT: Final = 1_000
_MAX_CONNECTIONS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """A producer's configuration; sizes in bytes. Raises ConfigError, whose text has the remedy."""

    acks: Acks = "all"
    compression: str = "none"
    """`none`, `gzip`, `snappy`, `lz4` or `zstd`."""
    compression_level: int | None = None
    """1 to 9 for gzip, 1 to 22 for zstd; None: the codec's own default."""
    linger_ms: float = 5
    batch_size: int = 16_384
    enable_idempotence: bool | None = None
    """None: if `acks` allows it; sequences need acks="all"."""
    max_in_flight_requests_per_connection: int = 5
    max_request_size: int = 1_048_576
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    connections_per_broker: int = 1
    """1 to 1,000; each has its share of the partitions.

    A broker handles one request of a connection at a time.
    """
    partitioner: Partitioner | PartitionerName = "murmur2_random"
    """A name of librdkafka's, or a function."""

    def __post_init__(self) -> None:
        is_number = isinstance(self.linger_ms, int | float) and not isinstance(self.linger_ms, bool)
        if not is_number or not 0 <= self.linger_ms <= MAX_MS:
            raise ConfigError(f"linger_ms is {self.linger_ms!r}; it has to be a number from 0 on")
        if self.enable_idempotence is not None:
            validate_flag("enable_idempotence", self.enable_idempotence)
        is_number = isinstance(self.acks, int) and not isinstance(self.acks, bool)
        if not (is_number or isinstance(self.acks, str)) or self.acks not in _ACKS:
            raise ConfigError(f"acks {self.acks!r}: it is 0, 1 or all")
        if not isinstance(self.compression, str) or self.compression not in _CODECS:
            raise ConfigError(
                f"compression {self.compression!r}: it is one of {', '.join(_CODECS)}"
            )
        if self.compression_level is not None:
            if self.codec not in _MAX_COMPRESSION_LEVEL:
                raise ConfigError(
                    f"compression {self.compression!r} has no compression_level here: gzip and "
                    "zstd have one"
                )
            most = _MAX_COMPRESSION_LEVEL[self.codec]
            validate_int("compression_level", self.compression_level, 1, most)
        if self.is_idempotent and self.required_acks != -1:
            raise ConfigError(
                f"idempotence needs acks=all, not {self.acks!r}; set "
                "enable_idempotence=False or acks='all'"
            )
        if self.transactional_id is not None:
            self._validate_transactions()
        most = _REMEMBERED if self.is_idempotent else _MAX_IN_FLIGHT
        validate_int(
            "max_in_flight_requests_per_connection",
            self.max_in_flight_requests_per_connection,
            1,
            most,
        )
        validate_int("connections_per_broker", self.connections_per_broker, 1, _MAX_CONNECTIONS)
        for name, least in (
            ("max_request_size", 1),
            ("buffer_memory", 1),
            ("delivery_timeout_ms", 1),
            ("transaction_timeout_ms", 1),
            ("batch_size", 0),
            ("max_block_ms", 0),
        ):
            validate_int(name, getattr(self, name), least, MAX_MS)

    def _validate_transactions(self) -> None:
        if not isinstance(self.transactional_id, str) or not self.transactional_id:
            raise ConfigError(f"transactional_id {self.transactional_id!r}: a name is needed")
        validate_text("transactional_id", self.transactional_id)
        if not self.is_idempotent:
            raise ConfigError(
                "transactional_id needs an idempotent producer: leave enable_idempotence and acks "
                "out"
            )

    @property
    def required_acks(self) -> int:
        """0, 1, or -1 for all."""
        return _ACKS[self.acks]

    @property
    def codec(self) -> Codec:
        return _CODECS[self.compression]

    @property
    def is_idempotent(self) -> bool:
        return (
            self.required_acks == -1 if self.enable_idempotence is None else self.enable_idempotence
        )

    @property
    def in_flight_per_partition(self) -> int:
        """Most batches in flight; one without sequences, as two could change places on a retry."""
        return self.max_in_flight_requests_per_connection if self.is_idempotent else 1

    @property
    def linger_s(self) -> float:
        return self.linger_ms / 1000

    @property
    def delivery_timeout_s(self) -> float:
        return self.delivery_timeout_ms / 1000
