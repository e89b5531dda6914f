"""Options of `.write.format("kohort")`, and of `.writeStream`: those of Spark's sink, and producers' as `kafka.*`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.client.producer import Producer
from kohort.errors import ConfigError
from kohort.spark import connecting
from kohort.spark.connecting import PREFIX, number
from kohort.spark.given import Given, Pairs

BATCH_SIZE: Final = 262_144
"""Bytes of a record batch, unless `kafka.batch.size` says otherwise: 16 KiB are for records that come one by one."""

_NUMBERS: Final = {
    "batch.size": "batch_size",
    "buffer.memory": "buffer_memory",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "max.block.ms": "max_block_ms",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "max.request.size": "max_request_size",
}
_WRITE: Final = ("topic", "includeHeaders", "checkpointLocation", "path", "queryName")
"""The last three are Spark's own; it hands them to the sink as well."""
_WRITE_KAFKA: Final = connecting.KNOWN | {*_NUMBERS, "acks", "compression.type", "enable.idempotence"}
_NO_COUNTERPART: Final = {
    "linger.ms": "a task sends batches when they are full, and the rest at its end",
    "transactional.id": "a write is at least once; make it idempotent, or deduplicate by key",
    "partitioner.class": "write a column `partition`; without one, keys go where Java's producer sends them",
    "retries": "set kafka.delivery.timeout.ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Everything that a writer is told."""

    kafka: Pairs
    topic: str | None
    """Where all rows go; None: the column `topic` says."""
    headers: bool | None
    """Whether the column `headers` is written; None: if there is one."""
    batch_size: int
    max_request_size: int

    def producer(self, cluster: Cluster) -> Producer:
        """A new producer. Raises ConfigError."""
        return _producer(cluster, dict(self.kafka))


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write. Raises ConfigError."""
    given = Given(options)
    given.refuse_unknown(_WRITE, {})
    for name in given.kafka:
        if name in _NO_COUNTERPART:
            raise ConfigError(f"option {PREFIX}{name} has no counterpart here, leave it out: {_NO_COUNTERPART[name]}")
    connecting.refuse_unknown(given.kafka, frozenset(_WRITE_KAFKA))
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("option topic is empty; leave it out if each row has its own in a column topic")
    kafka = given.kafka | {"batch.size": given.kafka.get("batch.size", str(BATCH_SIZE))}
    _producer(Cluster(connecting.client_config(kafka)), kafka)
    return WriteOptions(
        kafka=tuple(sorted(kafka.items())),
        topic=topic,
        headers=None if given.get("includeHeaders") is None else given.flag("includeHeaders", False),
        batch_size=max(number("kafka.batch.size", kafka["batch.size"]), 1),
        max_request_size=number("kafka.max.request.size", kafka.get("max.request.size", "1048576")),
    )


def _producer(cluster: Cluster, kafka: Mapping[str, str]) -> Producer:
    settings: dict[str, Any] = {"acks": kafka.get("acks", "all"), "compression": kafka.get("compression.type", "none")}
    settings |= {field: number(PREFIX + name, kafka[name]) for name, field in _NUMBERS.items() if name in kafka}
    if "enable.idempotence" in kafka:
        settings["enable_idempotence"] = Given(kafka).flag("enable.idempotence", True)
    try:
        return Producer(cluster, **settings)
    except ConfigError as error:
        raise ConfigError(f"options kafka.*: {error}") from None
