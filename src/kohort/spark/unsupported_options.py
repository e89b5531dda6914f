"""Options of Spark's connector and Java's clients that this source lacks, each with an alternative.

Queries that were changed from `.format("kafka")` may have them set. Names of Kafka's properties are
without `kafka.`.
"""

from typing import Final

SPARK: Final = {
    "kafkaConsumer.pollTimeoutMs": "set kafka.request.timeout.ms",
    "fetchOffset.numRetries": "set kafka.default.api.timeout.ms",
    "fetchOffset.retryIntervalMs": "set kafka.retry.backoff.ms",
    "groupIdPrefix": "a query that needs a group names it in group.id",
    "minOffsetsPerTrigger": "set the trigger's interval",
    "maxTriggerDelay": "set the trigger's interval",
    "path": "subscribe names the topics of a read",
}
"""Of Spark's source."""

_TRIGGERS: Final = "the query commits by groupMode"
_TEXT_OR_BYTES: Final = "keys and values are string or binary columns; cast them"
_NO_JAVA: Final = "no Java client is at work, whose metrics and classes these are"
_SOCKETS: Final = "the system sizes the buffers of sockets"
_TASKS: Final = "a task sends batches when they are full, and the rest at its end"
_PARTITIONER: Final = (
    "write a column partition; without one, keys go where Java's producer sends them"
)
_AGAIN: Final = "writing is tried again until kafka.delivery.timeout.ms"

_KAFKA: Final = {
    "auto.offset.reset": "say startingOffsets instead",
    "enable.auto.commit": _TRIGGERS,
    "auto.commit.interval.ms": _TRIGGERS,
    "max.poll.records": "set maxOffsetsPerTrigger, or maxRecordsPerPartition for the size of tasks",
    "fetch.min.bytes": "tasks ask for records that are known to be there",
    "client.rack": "partitions are read from their leaders",
    "allow.auto.create.topics": (
        "a read makes no topics; whether a write does is a setting of the brokers"
    ),
    "exclude.internal.topics": "a pattern never finds internal topics; name them in subscribe",
    "group.protocol": "members speak the protocol that every broker has (classic)",
    "group.remote.assignor": "set kafka.partition.assignment.strategy",
    "key.deserializer": _TEXT_OR_BYTES,
    "value.deserializer": _TEXT_OR_BYTES,
    "key.serializer": _TEXT_OR_BYTES,
    "value.serializer": _TEXT_OR_BYTES,
    "linger.ms": _TASKS,
    "transactional.id": "a write is at least once; make it idempotent, or deduplicate by key",
    "transaction.timeout.ms": "a write is at least once; make it idempotent, or deduplicate by key",
    "retries": _AGAIN,
    "metadata.max.idle.ms": "set kafka.metadata.max.age.ms",
    "reconnect.backoff.ms": "set kafka.retry.backoff.ms",
    "reconnect.backoff.max.ms": "set kafka.retry.backoff.max.ms",
    "socket.connection.setup.timeout.max.ms": "set kafka.socket.connection.setup.timeout.ms",
    "client.dns.lookup": "all addresses of a name are tried",
    "send.buffer.bytes": _SOCKETS,
    "receive.buffer.bytes": _SOCKETS,
    "sasl.kerberos.service.name": (
        "set kafka.sasl.mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    ),
    "ssl.truststore.password": "PEM files of certificates have none",
    "ssl.keystore.password": "the password of a PEM key is kafka.ssl.key.password",
    "ssl.truststore.certificates": (
        "write them to a PEM file, and name it in kafka.ssl.truststore.location"
    ),
    "ssl.keystore.certificate.chain": (
        "write it to a PEM file, and name it in kafka.ssl.keystore.location"
    ),
    "ssl.keystore.key": "write it to a PEM file, and name it in kafka.ssl.key.location",
}
_FAMILIES: Final = {
    "partitioner.": _PARTITIONER,
    "compression.": "codecs work at their usual levels; set kafka.compression.type",
    "interceptor.": _NO_JAVA,
    "metric": _NO_JAVA,
    "enable.metrics": _NO_JAVA,
    "auto.include.jmx": _NO_JAVA,
    "config.providers": _NO_JAVA,
    "security.providers": _NO_JAVA,
    "metadata.recovery.": (
        "the brokers of kafka.bootstrap.servers are asked again when no other responds"
    ),
    "sasl.": (
        "authentication is PLAIN or SCRAM: kafka.sasl.mechanism, kafka.sasl.username and "
        "kafka.sasl.password"
    ),
    "ssl.": "versions and ciphers of TLS are those that Python chooses",
}
"""By how names begin, for what is not in the table above."""


def advice(name: str) -> str | None:
    """The alternative to Java's property `name`; None if it is not known as unsupported."""
    return _KAFKA.get(name) or next(
        (text for start, text in _FAMILIES.items() if name.startswith(start)), None
    )
