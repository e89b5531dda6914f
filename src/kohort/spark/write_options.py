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
from kohort.spark import connecting
from kohort.spark.options import READ
from kohort.spark.raw_options import SECURITY, Pairs, RawOptions
from kohort.spark.values import named, numbers

BATCH_SIZE: Final = 262_144
"""Default size of a record batch in bytes; the producer's 16 KiB are for single records."""

CONNECTIONS: Final = 2
"""To each broker, for a transaction: one process sends what all tasks have encoded."""

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
"""The last three are Spark's own; it hands them to the sink as well."""
_ACKS: Final = ("all", "-1", "0", "1")
_DELIVERIES: Final = ("at_least_once", "exactly_once")
_ANY_CLUSTER: Final = ClientConfig()
"""Stands for one whose options are refused, while the others are looked at."""


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
    codec: Codec
    batch_size: int
    max_request_size: int
    max_block_ms: int
    """How long metadata of a topic is requested, and room is waited for."""
    transactional_id: str | None
    """The rows of a write are in one transaction of this id; None: in none."""
    checkpoint: str | None
    """Location of a stream's checkpoint, if the query's options have it."""
    verify_plan: bool
    """Whether the offsets of a micro-batch are compared with those committed under its number."""
    without_effect: tuple[tuple[str, str], ...] = ()
    """Accepted options that do nothing in a write, and why."""

    @property
    def batches_group(self) -> str:
        """The group whose offsets are the numbers of committed micro-batches.

        Users often have permissions for names that begin with the transactional id.
        """
        return f"{self.transactional_id}-batches"

    @property
    def servers(self) -> tuple[Address, ...]:
        """The bootstrap servers."""
        return connecting.client_config(dict(self.kafka)).servers

    def producer(self, cluster: Cluster) -> Producer:
        """A new one."""
        return Producer(cluster, **dict(self.producing))


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write.

    Raises RefusedOptionsError, which names all that is wrong.
    """
    given, refusals = RawOptions(options), OptionErrors()
    refusals.add(given.unknown((*_WRITE, *READ)))
    refusals.add(connecting.unknown(given.kafka, connecting.WRITES))
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        refusals.add([
            "option topic is empty; leave it out if each row has its own in a column topic"
        ])  # fmt: skip
    config = refusals.of(lambda: connecting.client_config(given.kafka), _ANY_CLUSTER)
    refusals.add(_validate_delivery(given, refusals))
    producing = _producing(given, refusals)
    fields = _NUMBERS | {"enable.idempotence": "enable_idempotence"}
    make = partial(Producer, Cluster(config), **producing)
    producer = refusals.of(lambda: named("kafka.*", fields, make).config, None)
    headers = refusals.of(lambda: given.flag("includeHeaders", False), False)
    timestamps = refusals.of(lambda: given.flag("includeTimestamp", False), False)
    verify_plan = refusals.of(lambda: given.flag("verifyPlan", True), True)
    refusals.end()
    assert producer is not None
    return WriteOptions(
        kafka=tuple(sorted(given.kafka.items())),
        topic=topic,
        headers=None if given.get("includeHeaders") is None else headers,
        timestamps=timestamps,
        producing=tuple(sorted(producing.items())),
        codec=producer.codec,
        batch_size=max(producer.batch_size, 1),
        max_request_size=producer.max_request_size,
        max_block_ms=producer.max_block_ms,
        transactional_id=producer.transactional_id,
        checkpoint=given.get("checkpointLocation"),
        verify_plan=verify_plan,
        without_effect=tuple(sorted(_without_effect(given).items())),
    )


def _without_effect(given: RawOptions) -> dict[str, str]:
    reading = [name for name in READ if name not in _WRITE]
    found = dict.fromkeys(given.among(reading), "it is for reads")
    if "transactional.id" not in given.kafka:
        of_transactions = given.among(["kafka.transaction.timeout.ms", "verifyPlan"])
        found |= dict.fromkeys(of_transactions, "it is for delivery=exactly_once")
    return found | connecting.without_effect(given.kafka, connecting.WRITES)


def _validate_delivery(given: RawOptions, refusals: OptionErrors) -> Iterator[str]:
    """The refusal of a transactional id without its delivery, or the reverse."""
    choice = refusals.of(lambda: given.choice("delivery", _DELIVERIES, _DELIVERIES[0]), None)
    has_id = "transactional.id" in given.kafka
    if choice == "exactly_once" and not has_id:
        yield (
            "option kafka.transactional.id is missing, which delivery=exactly_once needs: a name "
            "that only this query has, and keeps when it is started again"
        )
    if choice == "at_least_once" and has_id:
        yield "option kafka.transactional.id is for delivery=exactly_once; set it, or leave it out"


def _producing(given: RawOptions, refusals: OptionErrors) -> dict[str, Any]:
    codecs = tuple(codec.name.lower() for codec in Codec)
    found: dict[str, Any] = {
        "acks": refusals.of(lambda: given.choice("kafka.acks", _ACKS, "all"), "all"),
        "compression": refusals.of(
            lambda: given.choice("kafka.compression.type", codecs, "none"), "none"
        ),
        "batch_size": BATCH_SIZE,
        **refusals.of(lambda: numbers(given.kafka, _NUMBERS), {}),
    }
    if "transactional.id" in given.kafka:  # else its timeout has no effect
        found["transactional_id"] = given.kafka["transactional.id"]
        found["connections_per_broker"] = CONNECTIONS
    if "enable.idempotence" in given.kafka:
        found["enable_idempotence"] = refusals.of(
            lambda: given.flag("kafka.enable.idempotence", True), True
        )
    return found
