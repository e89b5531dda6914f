"""Merges explicit properties with those of a file, under the names of either client.

Java's and librdkafka's clients have different names for one property, and one setting can have
several properties: a login is a JAAS line, or user name and password. An explicit property replaces
all properties of the file with the same meaning. A contradiction within one layer is an error.
"""

from collections.abc import Mapping
from typing import Final

from kohort.client.properties.fields import jaas_credentials, jaas_options
from kohort.errors import ConfigError

LIBRDKAFKA: Final = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""Names of librdkafka alone → Java's."""
_LINE: Final = "sasl.jaas.config"
_LOGIN: Final = ("sasl.username", "sasl.password")
_CLIENT: Final = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
"""Option of a JAAS line → property, which counts more in one place."""
_AUTHORITIES: Final = (
    "ssl.ca.location", "ssl.truststore.location", "ssl.truststore.certificates",
)  # fmt: skip
_TEXT: Final = ("ssl.keystore.certificate.chain", "ssl.keystore.key")
_REPLACES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_AUTHORITIES, _AUTHORITIES),
    "ssl.certificate.location": ("ssl.keystore.location", *_TEXT),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location", *_TEXT),
    "ssl.key.location": ("ssl.keystore.key",),
    "ssl.keystore.certificate.chain": ("ssl.certificate.location", "ssl.keystore.location"),
    "ssl.keystore.key": ("ssl.key.location",),
    _LINE: _LOGIN,
}
"""Explicit property → properties of the file that it replaces, besides its own name."""


def in_javas_names(properties: Mapping[str, str], *, prefix: str = "") -> dict[str, str]:
    """The properties by Java's names.

    Raises ConfigError for a property under both names with different values; `prefix` precedes each
    name in the error.
    """
    renamed = dict(properties)
    for librdkafka_name, name in LIBRDKAFKA.items():
        if librdkafka_name in renamed:
            value = renamed.pop(librdkafka_name)
            if renamed.setdefault(name, value) != value:
                raise contradiction(librdkafka_name, name, prefix)
    return renamed


def contradiction(first: str, other: str, prefix: str) -> ConfigError:
    """The error for two properties that contradict each other."""
    return ConfigError(
        f"options {prefix}{first} and {prefix}{other} contradict each other; give one"
    )


def over(file: Mapping[str, str], explicit: Mapping[str, str]) -> dict[str, str]:
    """The `explicit` properties, and the properties of a file that they do not replace.

    Contradictions within one of the two remain.
    """
    renamed = {LIBRDKAFKA.get(name, name): value for name, value in explicit.items()}
    remaining = _without_other_protocols(file, renamed.get("security.protocol"))
    if not renamed.keys().isdisjoint(_LOGIN) and _LINE in remaining:
        remaining |= {
            f"sasl.{name}": value for name, value in jaas_credentials(remaining.pop(_LINE)).items()
        }
    beaten = {*renamed, *(replaced for name in renamed for replaced in _REPLACES.get(name, ()))}
    beaten |= {
        _CLIENT[option] for option in jaas_options(renamed.get(_LINE, "")) if option in _CLIENT
    }
    not_replaced = {
        name: value for name, value in remaining.items() if LIBRDKAFKA.get(name, name) not in beaten
    }
    return not_replaced | dict(explicit)


def _without_other_protocols(file: Mapping[str, str], protocol: str | None) -> dict[str, str]:
    """The properties of a file that an explicit `security.protocol` leaves an effect."""
    if protocol is None:
        return dict(file)
    families = {"sasl.": "SASL", "ssl.": "SSL"}
    pointless = tuple(family for family, word in families.items() if word not in protocol.upper())
    return {name: value for name, value in file.items() if not name.startswith(pointless)}
