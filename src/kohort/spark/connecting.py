"""The supported `kafka.*` options, by the names of Java's clients, and their client config."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kohort.client.config import ClientConfig
from kohort.client.properties import DURATION_FIELDS, OptionErrors
from kohort.client.security import PLAINTEXT, SECURITY_PROPERTIES, security_of_properties
from kohort.spark import unsupported_options
from kohort.spark.values import PREFIX, named, numbers
from kohort.util.text import closest

_CLIENT: Final = DURATION_FIELDS | {"default.api.timeout.ms": "default_api_timeout_ms"}
KNOWN: Final = frozenset((*_CLIENT, *SECURITY_PROPERTIES, "bootstrap.servers", "client.id"))
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


def unknown(given: Mapping[str, str], known: frozenset[str]) -> Iterator[str]:
    """The refusal of each `kafka.*` name that is neither `known` (READS, WRITES) nor harmless.

    The names in `given` have no prefix.
    """
    for name in given:
        if name in READS | WRITES or unsupported_options.without_effect(name) is not None:
            continue
        if (advice := unsupported_options.refusal(name)) is not None:
            yield f"option {PREFIX}{name} is not supported, leave it out: {advice}"
            continue
        match = closest(name, sorted(known))
        hint = f"; is it {PREFIX}{match}?" if match else ""
        yield f"option {PREFIX}{name} is not known{hint}"


def without_effect(given: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
    """The accepted names, with the prefix, that do nothing as they are not in `known`; and why."""
    found = {}
    for name in given.keys() - known:
        other = f"it is for {'reads' if name in READS else 'writes'}"
        why = other if name in READS | WRITES else unsupported_options.without_effect(name)
        found[PREFIX + name] = why or ""
    return found


def client_config(given: Mapping[str, str]) -> ClientConfig:
    """The client's configuration from `kafka.*` options without the prefix.

    Raises RefusedOptionsError for all that is wrong, also for stores that cannot be read.
    """
    refusals = OptionErrors()
    if not (bootstrap := given.get("bootstrap.servers", "").strip()):
        refusals.add([
            f"option {PREFIX}bootstrap.servers is missing: HOST:PORT of some brokers, with commas"
        ])  # fmt: skip
    fields: dict[str, Any] = refusals.of(lambda: numbers(given, _CLIENT), {})
    fields["security"] = refusals.of(
        lambda: security_of_properties(given, prefix=PREFIX), PLAINTEXT
    )
    fields["client_id"] = given.get("client.id", "kohort-spark")
    config = refusals.of(
        lambda: named(
            "kafka.*",
            _CLIENT,
            lambda: ClientConfig(bootstrap=bootstrap or "missing:1", **fields),
        ),
        None,
    )
    refusals.end()
    assert config is not None
    return config
