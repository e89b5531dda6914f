"""All settings of a server: name, type, default, range and documentation, in tables by subject.

A Kafka name that is missing here does nothing in Kohort, and setting it is refused rather than
ignored. Where a default is not Kafka's, the text says so.
"""

from typing import Final

from kohort.server.config import (
    coordinator_configs,
    kohort_configs,
    log_configs,
    security_configs,
    socket_configs,
)
from kohort.server.config.definition import ConfigDef

RELOADABLE: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""Settings that clients can change for one listener, with its prefix, and for one broker."""

DYNAMIC: Final = frozenset(
    {
        "compression.type",
        "group.consumer.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.index.interval.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "max.decompressed.message.bytes",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "producer.id.expiration.ms",
    }
)
"""Settings that clients can change while the server runs (KIP-226)."""

TABLE: Final[dict[str, ConfigDef]] = {
    definition.name: definition
    for section in (
        socket_configs.SERVER,
        socket_configs.CONNECTIONS,
        security_configs.TLS,
        security_configs.AUTHORIZATION,
        security_configs.SASL,
        coordinator_configs.GROUPS,
        coordinator_configs.CONSUMER_GROUPS,
        coordinator_configs.OFFSETS,
        coordinator_configs.TRANSACTIONS,
        log_configs.TOPICS,
        log_configs.LOG,
        log_configs.CLEANER,
        log_configs.PRODUCE_AND_FETCH,
        kohort_configs.KOHORT,
    )
    for definition in section
}
