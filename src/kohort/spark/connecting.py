"""`kafka.*` options, by the names of Kafka's Java clients, as our client's configuration.

What Java calls differently is translated: a JAAS line becomes user name and password, PEM stores become files. What has
no counterpart is refused by name, so that nobody believes in a setting that does nothing.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from kohort.client.config import ClientConfig
from kohort.client.properties import DURATIONS, SECURITY, credentials
from kohort.client.security import Security
from kohort.errors import ConfigError

T = TypeVar("T")

PREFIX: Final = "kafka."

_CLIENT: Final = DURATIONS | {"default.api.timeout.ms": "default_api_timeout_ms"}
_TEXT: Final = ("bootstrap.servers", "client.id")
_TRANSLATED: Final = (
    "sasl.jaas.config",
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.endpoint.identification.algorithm",
)
KNOWN: Final = frozenset((*_CLIENT, *_TEXT, *SECURITY, *_TRANSLATED))
"""Names without `kafka.` that reading and writing have in common."""

_USELESS: Final = {
    "auto.offset.reset": "say startingOffsets instead",
    "enable.auto.commit": "the query commits by groupMode",
    "auto.commit.interval.ms": "the query commits by groupMode",
    "key.deserializer": "keys are binary columns; cast them",
    "value.deserializer": "values are binary columns; cast them",
    "key.serializer": "keys are string or binary columns",
    "value.serializer": "values are string or binary columns",
    "interceptor.classes": "there is no Java in the way",
    "ssl.truststore.password": "PEM files of certificates have none",
    "ssl.keystore.password": "the password of a PEM key is ssl.key.password",
}


def refuse_unknown(given: Mapping[str, str], known: frozenset[str]) -> None:
    """Raise ConfigError for a `kafka.*` name (given without the prefix) that is not among `known`."""
    for name in given:
        if name in known:
            continue
        if name in _USELESS:
            raise ConfigError(f"option {PREFIX}{name} has no effect here, leave it out: {_USELESS[name]}")
        near = get_close_matches(name, sorted(known), n=1)
        raise ConfigError(f"option {PREFIX}{name} is not known" + (f"; is it {PREFIX}{near[0]}?" if near else ""))


def client_config(given: Mapping[str, str]) -> ClientConfig:
    """The configuration that `given` (`kafka.*` names without the prefix) asks for. Raises ConfigError."""
    if not given.get("bootstrap.servers", "").strip():
        raise ConfigError(f"option {PREFIX}bootstrap.servers is missing: HOST:PORT of some brokers, with commas")
    numbers: dict[str, Any] = {
        field: number(PREFIX + name, given[name]) for name, field in _CLIENT.items() if name in given
    }
    return _named(
        "kafka.*",
        lambda: ClientConfig(
            bootstrap=given["bootstrap.servers"],
            client_id=given.get("client.id", "kohort-spark"),
            security=_named("kafka.security.protocol", lambda: _security(given)),
            **numbers,
        ),
    )


def _security(given: Mapping[str, str]) -> Security:
    fields: dict[str, Any] = {field: given[name] for name, field in SECURITY.items() if name in given}
    for store in ("truststore", "keystore"):
        _validate_store(given, store)
    if (line := given.get("sasl.jaas.config")) is not None:
        fields |= _credentials(line)
    if fields.get("protocol", "").startswith("SASL") and "mechanism" not in fields:
        raise ConfigError("option kafka.sasl.mechanism is missing: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    if given.get("ssl.endpoint.identification.algorithm", "https") == "":
        fields["ssl_check_hostname"] = False
    return Security(**fields)


def _validate_store(given: Mapping[str, str], store: str) -> None:
    kind = given.get(f"ssl.{store}.type", "JKS")
    if f"ssl.{store}.location" in given and kind.upper() != "PEM":
        raise ConfigError(
            f"option kafka.ssl.{store}.type is {kind}: only PEM files can be read; export the {store} (keytool),"
            f" name the file in kafka.ssl.{store}.location and set kafka.ssl.{store}.type to PEM"
        )


def _credentials(line: str) -> dict[str, str]:
    """User name and password of a JAAS line, as `sasl.jaas.config` of Java's clients has them."""
    found = credentials(line)
    if set(found) != {"username", "password"}:
        raise ConfigError(
            'option kafka.sasl.jaas.config has no username="…" and password="…"; '
            "give kafka.sasl.username and kafka.sasl.password instead"
        )
    return found


def _named(option: str, make: Callable[[], T]) -> T:
    """What `make` makes; its ConfigError told as one of `option`, unless it names one itself."""
    try:
        return make()
    except ConfigError as error:
        if str(error).startswith("option"):
            raise
        raise ConfigError(f"options {option}: {error}") from None


def number(option: str, text: str, least: int = 0) -> int:
    """A whole number. Raises ConfigError."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ConfigError(f"option {option} is {text!r}; it has to be a whole number from {least} on")
    return value
