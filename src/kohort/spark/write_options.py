"""Options of `.write.format("kohort")` and `.writeStream`: Spark's sink's, and `kafka.*`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.client.produce import Producer
from kohort.errors import ConfigError
from kohort.protocol.compression import Codec
from kohort.spark import connecting
from kohort.spark.raw_options import Pairs, RawOptions
from kohort.spark.values import named, numbers

BATCH_SIZE: Final = 262_144
"""Default size of a record batch in bytes; the producer's 16 KiB are for single records."""

_NUMBERS: Final = {
    "batch.size": "batch_size",
    "buffer.memory": "buffer_memory",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "max.block.ms": "max_block_ms",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "max.request.size": "max_request_size",
}
_WRITE: Final = (
    "topic",
    "includeHeaders",
    "includeTimestamp",
    "checkpointLocation",
    "path",
    "queryName",
)
"""The last three are Spark's own; it hands them to the sink as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """All options of a writer."""

    kafka: Pairs = field(repr=False)
    topic: str | None
    """Where all rows go; None: the column `topic` says."""
    headers: bool | None
    """Whether the column `headers` is written; None: if there is one."""
    timestamps: bool
    """Whether the column `timestamp` is written; Spark's sink ignores it.

    Retention deletes records by their time: events of long ago would be deleted at once.
    """
    producing: tuple[tuple[str, Any], ...]
    """What a `Producer` is made with."""
    batch_size: int
    max_request_size: int
    max_block_ms: int
    """How long metadata of a topic is requested, and room is waited for."""

    def producer(self, cluster: Cluster) -> Producer:
        """A new one."""
        return Producer(cluster, **dict(self.producing))


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write. Raises ConfigError."""
    given = RawOptions(options)
    given.refuse_unknown(_WRITE, {})
    connecting.refuse_unknown(given.kafka, connecting.WRITES)
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError(
            "option topic is empty; leave it out if each row has its own in a column topic"
        )
    config = connecting.client_config(given.kafka)
    producing = _producing(given)
    fields = _NUMBERS | {"enable.idempotence": "enable_idempotence"}
    producer = named("kafka.*", fields, lambda: Producer(Cluster(config), **producing)).config
    return WriteOptions(
        kafka=tuple(sorted(given.kafka.items())),
        topic=topic,
        headers=None
        if given.get("includeHeaders") is None
        else given.flag("includeHeaders", False),
        timestamps=given.flag("includeTimestamp", False),
        producing=tuple(sorted(producing.items())),
        batch_size=max(producer.batch_size, 1),
        max_request_size=producer.max_request_size,
        max_block_ms=producer.max_block_ms,
    )


def _producing(given: RawOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "acks": given.choice("kafka.acks", ("all", "-1", "0", "1"), "all"),
        "compression": given.choice(
            "kafka.compression.type", tuple(codec.name.lower() for codec in Codec), "none"
        ),
        "batch_size": BATCH_SIZE,
        **numbers(given.kafka, _NUMBERS),
    }
    if "enable.idempotence" in given.kafka:
        found["enable_idempotence"] = given.flag("kafka.enable.idempotence", True)
    return found
