"""Options of Spark's connector and Java's clients that do nothing here.

Queries that were changed from `.format("kafka")` may have them set. Options that affect neither
the records nor the permissions are accepted, and `log_ignored` logs them. The others are refused
with an alternative. Names of Kafka's properties are without `kafka.`.
"""

import logging
from collections.abc import Mapping
from typing import Final

logger: Final = logging.getLogger("kohort.spark")

_TEXT_OR_BYTES: Final = "keys and values are string or binary columns; cast them"
_PARTITIONER: Final = (
    "write a column partition; without one, keys go where Java's producer sends them"
)
_MECHANISMS: Final = (
    "authentication is PLAIN, SCRAM or OAUTHBEARER with client credentials, without classes of Java"
)

_REFUSED: Final = {
    "auto.offset.reset": "set startingOffsets instead",
    "enable.auto.commit": "the query commits by groupMode",
    "interceptor.classes": "transform the columns in the query",
    "key.deserializer": _TEXT_OR_BYTES,
    "value.deserializer": _TEXT_OR_BYTES,
    "key.serializer": _TEXT_OR_BYTES,
    "value.serializer": _TEXT_OR_BYTES,
    "partitioner.class": _PARTITIONER,
    "partitioner.ignore.keys": _PARTITIONER,
    "transaction.two.phase.commit.enable": "set delivery to exactly_once, which needs no such end",
    "config.providers": "resolve the values in the program",
    "sasl.client.callback.handler.class": _MECHANISMS,
    "sasl.login.class": _MECHANISMS,
    "ssl.engine.factory.class": "name stores in kafka.ssl.truststore.* and kafka.ssl.keystore.*",
}
"""Options without which other records would be read or written, or by another user."""

_COMMITS: Final = "the query commits by groupMode"
_NO_JAVA: Final = "the client is not Java's"
_SOCKETS: Final = "the system sizes the buffers of sockets"
_LEVELS: Final = "codecs use their default levels"
_NO_KEYS: Final = "rows without keys fill one batch after the other"
_RECONNECT: Final = "see kafka.retry.backoff.ms"
_METADATA: Final = "metadata is requested when it is needed"
_NO_KERBEROS: Final = "the mechanism is not Kerberos"
_TOKENS: Final = "a token is requested when it is needed, and the broker validates it"
_TLS: Final = "Python chooses the versions and ciphers of TLS"

_WITHOUT_EFFECT: Final = {
    name: why
    for why, names in (
        (_COMMITS, "auto.commit.interval.ms"),
        (_NO_JAVA, "auto.include.jmx.reporter enable.metrics.push metric.reporters"),
        (_NO_JAVA, "metrics.num.samples metrics.recording.level metrics.sample.window.ms"),
        (_NO_JAVA, "security.providers"),
        (_SOCKETS, "receive.buffer.bytes send.buffer.bytes"),
        (_LEVELS, "compression.gzip.level compression.lz4.level compression.zstd.level"),
        (_NO_KEYS, "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms"),
        (_NO_KEYS, "partitioner.rack.aware"),
        (_RECONNECT, "reconnect.backoff.ms reconnect.backoff.max.ms"),
        (_METADATA, "metadata.max.idle.ms"),
        (_NO_KERBEROS, "sasl.kerberos.service.name sasl.kerberos.kinit.cmd"),
        (_NO_KERBEROS, "sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter"),
        (_NO_KERBEROS, "sasl.kerberos.ticket.renew.window.factor"),
        (_TOKENS, "sasl.login.connect.timeout.ms sasl.login.read.timeout.ms"),
        (_TOKENS, "sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds"),
        (_TOKENS, "sasl.login.refresh.window.factor sasl.login.refresh.window.jitter"),
        (_TOKENS, "sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms"),
        (_TOKENS, "sasl.oauthbearer.allow.unverified.audience"),
        (_TOKENS, "sasl.oauthbearer.allow.unverified.issuer"),
        (_TOKENS, "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience"),
        (_TOKENS, "sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url"),
        (_TOKENS, "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        (_TOKENS, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        (_TOKENS, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        (_TOKENS, "sasl.oauthbearer.jwt.validator.class"),
        (_TOKENS, "sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name"),
        (_TLS, "ssl.cipher.suites ssl.enabled.protocols ssl.protocol ssl.provider"),
        (_TLS, "ssl.keymanager.algorithm ssl.trustmanager.algorithm"),
        (_TLS, "ssl.secure.random.implementation"),
        ("a read creates no topics", "allow.auto.create.topics"),
        ("all addresses of a name are tried", "client.dns.lookup"),
        ("a name is resolved at each attempt to connect", "bootstrap.resolve.timeout.ms"),
        ("memory is taken when records come", "buffer.memory.allocation.strategy"),
        ("a pattern never finds internal topics", "exclude.internal.topics"),
        ("tasks fetch records that are known to exist", "fetch.min.bytes"),
        ("see groupProtocol", "group.protocol"),
        ("a task sends batches when they are full, and the last ones at its end", "linger.ms"),
        ("see maxOffsetsPerTrigger and maxRecordsPerPartition", "max.poll.records"),
        ("sends are retried until kafka.delivery.timeout.ms", "retries"),
        (
            "see kafka.socket.connection.setup.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
        ),
    )
    for name in names.split()
}
"""Options that affect neither the records nor the permissions, and why they do nothing."""


def refusal(name: str) -> str | None:
    """Advice for Java's property `name`, which is refused; None if it is not refused."""
    return _REFUSED.get(name)


def without_effect(name: str) -> str | None:
    """Why Java's property `name` does nothing here; None if it has an effect or is unknown."""
    return _WITHOUT_EFFECT.get(name)


def log_ignored(reasons: Mapping[str, str]) -> None:
    """Log the accepted options that do nothing, with the reasons, in one line."""
    if reasons:
        listed = ", ".join(f"{name} ({why})" for name, why in sorted(reasons.items()))
        logger.warning("ignored options: %s", listed)
