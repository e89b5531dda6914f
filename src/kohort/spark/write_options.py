"""Options of `.write.format("kohort")` and `.writeStream`: Spark's sink's, and `kafka.*`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.client.config import Address, ClientConfig
from kohort.client.produce import Producer
from kohort.client.properties import OptionErrors
from kohort.protocol.compression import Codec
from kohort.spark import kafka_options
from kohort.spark.option_values import named, numbers
from kohort.spark.options import READ
from kohort.spark.raw_options import SECURITY, Pairs, RawOptions

BATCH_SIZE: Final = 262_144
"""Default size of a record batch in bytes; the producer's 16 KiB are for single records."""

CONNECTIONS: Final = 2
"""Connections to each broker in a transaction: one process sends the rows of all tasks."""

_NUMBERS: Final = {
    "batch.size": "batch_size",
    "buffer.memory": "buffer_memory",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "max.block.ms": "max_block_ms",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "max.request.size": "max_request_size",
    "transaction.timeout.ms": "transaction_timeout_ms",
}
_WRITE: Final = (
    SECURITY,
    "delivery",
    "verifyPlan",
    "topic",
    "includeHeaders",
    "includeTimestamp",
    "checkpointLocation",
    "path",
    "queryName",
)
"""The last three are Spark's own options, which it also passes to the sink."""
_ACKS: Final = ("all", "-1", "0", "1")
_DELIVERIES: Final = ("at_least_once", "exactly_once")
_ANY_CLUSTER: Final = ClientConfig()
"""Used while the other options are validated, if those of the cluster are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """All options of a writer."""

    kafka: Pairs = field(repr=False)
    topic: str | None
    """Topic of all rows; None: the column `topic` has it."""
    headers: bool | None
    """Whether the column `headers` is written; None: if there is one."""
    timestamps: bool
    """Whether the column `timestamp` is written; Spark's sink ignores it.

    Retention deletes records by their time: events of long ago would be deleted at once.
    """
    producing: tuple[tuple[str, Any], ...]
    """Arguments of `Producer`."""
    codec: Codec
    batch_size: int
    max_request_size: int
    max_block_ms: int
    """Longest wait for the metadata of a topic, and for memory of the producer."""
    transactional_id: str | None
    """Transactional id of the transaction that contains the rows; None: no transaction."""
    checkpoint: str | None
    """Location of a stream's checkpoint, if the query's options have it."""
    verify_plan: bool
    """Whether the offsets of a micro-batch are compared with those committed under its number."""
    without_effect: tuple[tuple[str, str], ...] = ()
    """Accepted options that do nothing in a write, and why."""

    @property
    def batches_group(self) -> str:
        """The group whose offsets are the numbers of committed micro-batches.

        Named after the transactional id, because permissions often cover its prefix.
        """
        return f"{self.transactional_id}-batches"

    @property
    def servers(self) -> tuple[Address, ...]:
        """The bootstrap servers."""
        return kafka_options.client_config(dict(self.kafka)).servers

    def producer(self, cluster: Cluster) -> Producer:
        """A new producer."""
        return Producer(cluster, **dict(self.producing))


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write.

    Raises RefusedOptionsError, which names all that is wrong.
    """
    raw, refusals = RawOptions(options), OptionErrors()
    refusals.add(raw.unknown((*_WRITE, *READ)))
    refusals.add(kafka_options.unknown(raw.kafka, kafka_options.WRITES))
    topic = raw.get("topic")
    if topic is not None and not topic.strip():
        refusals.add([
            "option topic is empty; leave it out if each row has its own in a column topic"
        ])  # fmt: skip
    config = refusals.of(lambda: kafka_options.client_config(raw.kafka), _ANY_CLUSTER)
    refusals.add(_validate_delivery(raw, refusals))
    producing = _producing(raw, refusals)
    fields = _NUMBERS | {"enable.idempotence": "enable_idempotence"}
    make = partial(Producer, Cluster(config), **producing)
    producer = refusals.of(lambda: named("kafka.*", fields, make).config, None)
    headers = refusals.of(lambda: raw.flag("includeHeaders", False), False)
    timestamps = refusals.of(lambda: raw.flag("includeTimestamp", False), False)
    verify_plan = refusals.of(lambda: raw.flag("verifyPlan", True), True)
    refusals.end()
    assert producer is not None
    return WriteOptions(
        kafka=tuple(sorted(raw.kafka.items())),
        topic=topic,
        headers=None if raw.get("includeHeaders") is None else headers,
        timestamps=timestamps,
        producing=tuple(sorted(producing.items())),
        codec=producer.codec,
        batch_size=max(producer.batch_size, 1),
        max_request_size=producer.max_request_size,
        max_block_ms=producer.max_block_ms,
        transactional_id=producer.transactional_id,
        checkpoint=raw.get("checkpointLocation"),
        verify_plan=verify_plan,
        without_effect=tuple(sorted(_without_effect(raw).items())),
    )


def _without_effect(raw: RawOptions) -> dict[str, str]:
    reading = [name for name in READ if name not in _WRITE]
    reasons = dict.fromkeys(raw.among(reading), "it is for reads")
    if "transactional.id" not in raw.kafka:
        of_transactions = raw.among(["kafka.transaction.timeout.ms", "verifyPlan"])
        reasons |= dict.fromkeys(of_transactions, "it is for delivery=exactly_once")
    return reasons | kafka_options.without_effect(raw.kafka, kafka_options.WRITES)


def _validate_delivery(raw: RawOptions, refusals: OptionErrors) -> Iterator[str]:
    """The refusal of a transactional id without its delivery, or the reverse."""
    choice = refusals.of(lambda: raw.choice("delivery", _DELIVERIES, _DELIVERIES[0]), None)
    has_id = "transactional.id" in raw.kafka
    if choice == "exactly_once" and not has_id:
        yield (
            "option kafka.transactional.id is missing, which delivery=exactly_once needs: a name "
            "that only this query has, and keeps when it is started again"
        )
    if choice == "at_least_once" and has_id:
        yield "option kafka.transactional.id is for delivery=exactly_once; set it, or leave it out"


def _producing(raw: RawOptions, refusals: OptionErrors) -> dict[str, Any]:
    codecs = tuple(codec.name.lower() for codec in Codec)
    settings: dict[str, Any] = {
        "acks": refusals.of(lambda: raw.choice("kafka.acks", _ACKS, "all"), "all"),
        "compression": refusals.of(
            lambda: raw.choice("kafka.compression.type", codecs, "none"), "none"
        ),
        "batch_size": BATCH_SIZE,
        **refusals.of(lambda: numbers(raw.kafka, _NUMBERS), {}),
    }
    if "transactional.id" in raw.kafka:  # else its timeout has no effect
        settings["transactional_id"] = raw.kafka["transactional.id"]
        settings["connections_per_broker"] = CONNECTIONS
    if "enable.idempotence" in raw.kafka:
        settings["enable_idempotence"] = refusals.of(
            lambda: raw.flag("kafka.enable.idempotence", True), True
        )
    return settings
