"""The supported `kafka.*` options, by the names of Java's clients, and their client config."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kohort.client.config import ClientConfig
from kohort.client.properties import (
    DURATION_FIELDS,
    RECOVERY_PROPERTIES,
    OptionErrors,
    recovery_fields,
)
from kohort.client.security import PLAINTEXT, SECURITY_PROPERTIES, security_of_properties
from kohort.spark import unsupported_options
from kohort.spark.option_values import PREFIX, named, numbers
from kohort.util.text import closest

_CLIENT: Final = DURATION_FIELDS | {"default.api.timeout.ms": "default_api_timeout_ms"}
KNOWN: Final = frozenset((
    *_CLIENT, *RECOVERY_PROPERTIES, *SECURITY_PROPERTIES, "bootstrap.servers", "client.id",
))  # fmt: skip
"""Names without `kafka.` that reading and writing have in common."""
MEMBERS: Final = frozenset((
    "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "group.instance.id",
    "partition.assignment.strategy", "group.remote.assignor",
))  # fmt: skip
"""Of a query that belongs to a group."""
READS: Final = KNOWN | MEMBERS | {
    "group.id", "isolation.level", "fetch.max.bytes", "fetch.max.wait.ms",
    "max.partition.fetch.bytes", "check.crcs", "client.rack",
}  # fmt: skip
WRITES: Final = KNOWN | {
    "acks", "batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms",
    "enable.idempotence",
    "max.block.ms", "max.in.flight.requests.per.connection", "max.request.size",
    "transaction.timeout.ms", "transactional.id",
}  # fmt: skip


def unknown(names: Mapping[str, str], supported: frozenset[str]) -> Iterator[str]:
    """The error for each `kafka.*` name that is neither `supported` (READS, WRITES) nor harmless.

    `names` have no prefix.
    """
    for name in names:
        if name in READS | WRITES or unsupported_options.without_effect(name) is not None:
            continue
        if (advice := unsupported_options.refusal(name)) is not None:
            yield f"option {PREFIX}{name} is not supported, leave it out: {advice}"
            continue
        match = closest(name, sorted(supported))
        hint = f"; is it {PREFIX}{match}?" if match else ""
        yield f"option {PREFIX}{name} is not known{hint}"


def without_effect(names: Mapping[str, str], supported: frozenset[str]) -> dict[str, str]:
    """Prefixed name → reason, for accepted names that are not in `supported` and do nothing."""
    reasons = {}
    for name in names.keys() - supported:
        other = f"it is for {'reads' if name in READS else 'writes'}"
        why = other if name in READS | WRITES else unsupported_options.without_effect(name)
        reasons[PREFIX + name] = why or ""
    return reasons


def client_config(kafka: Mapping[str, str]) -> ClientConfig:
    """The client's configuration from `kafka.*` options without the prefix.

    Raises RefusedOptionsError with all errors, including those of unreadable key stores.
    """
    refusals = OptionErrors()
    if not (bootstrap := kafka.get("bootstrap.servers", "").strip()):
        refusals.add([
            f"option {PREFIX}bootstrap.servers is missing: HOST:PORT of some brokers, with commas"
        ])  # fmt: skip
    fields: dict[str, Any] = refusals.of(lambda: numbers(kafka, _CLIENT), {})
    recovery: dict[str, str | bool] = refusals.of(lambda: recovery_fields(kafka), {})
    fields |= recovery
    fields["security"] = refusals.of(
        lambda: security_of_properties(kafka, prefix=PREFIX), PLAINTEXT
    )
    fields["client_id"] = kafka.get("client.id", "kohort-spark")
    config = refusals.of(
        lambda: named(
            "kafka.*",
            _CLIENT | RECOVERY_PROPERTIES,
            lambda: ClientConfig(bootstrap=bootstrap or "missing:1", **fields),
        ),
        None,
    )
    refusals.end()
    assert config is not None
    return config
