"""The supported `kafka.*` options, by the names of Kafka's Java clients, and their client config.

An option without effect is refused by name, so that no user relies on it.
"""

from collections.abc import Mapping
from typing import Final

from kohort.client.config import ClientConfig
from kohort.client.properties import DURATIONS
from kohort.errors import ConfigError
from kohort.spark import unsupported_options
from kohort.spark.security import NAMES, security
from kohort.spark.values import PREFIX, named, numbers
from kohort.suggestions import closest

_CLIENT: Final = DURATIONS | {"default.api.timeout.ms": "default_api_timeout_ms"}
KNOWN: Final = frozenset((*_CLIENT, *NAMES, "bootstrap.servers", "client.id"))
"""Names without `kafka.` that reading and writing have in common."""
MEMBERS: Final = frozenset((
    "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "group.instance.id",
    "partition.assignment.strategy",
))  # fmt: skip
"""Of a query that belongs to a group."""
READS: Final = KNOWN | MEMBERS | {
    "group.id", "isolation.level", "fetch.max.bytes", "fetch.max.wait.ms",
    "max.partition.fetch.bytes", "check.crcs",
}  # fmt: skip
WRITES: Final = KNOWN | {
    "acks", "batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms",
    "enable.idempotence",
    "max.block.ms", "max.in.flight.requests.per.connection", "max.request.size",
}  # fmt: skip


def refuse_unknown(given: Mapping[str, str], known: frozenset[str]) -> None:
    """Raise ConfigError for a `kafka.*` name that is not in `known`: READS or WRITES.

    The names in `given` have no prefix.
    """
    for name in given:
        if name in known:
            continue
        if name in READS | WRITES:
            raise ConfigError(
                f"option {PREFIX}{name} is for {'reads' if name in READS else 'writes'}; "
                "leave it out"
            )
        if (advice := unsupported_options.advice(name)) is not None:
            raise ConfigError(f"option {PREFIX}{name} has no effect here, leave it out: {advice}")
        match = closest(name, sorted(known))
        hint = f"; is it {PREFIX}{match}?" if match else ""
        raise ConfigError(f"option {PREFIX}{name} is not known{hint}")


def client_config(given: Mapping[str, str]) -> ClientConfig:
    """The client's configuration from `kafka.*` options without the prefix. Raises ConfigError."""
    if not given.get("bootstrap.servers", "").strip():
        raise ConfigError(
            f"option {PREFIX}bootstrap.servers is missing: HOST:PORT of some brokers, with commas"
        )
    return named(
        "kafka.*",
        _CLIENT,
        lambda: ClientConfig(
            bootstrap=given["bootstrap.servers"],
            client_id=given.get("client.id", "kohort-spark"),
            security=security(given),
            **numbers(given, _CLIENT),
        ),
    )
