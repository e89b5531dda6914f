"""`kafka.security.protocol`, `kafka.sasl.*` and `kafka.ssl.*`, by the names of Java clients.

Java's forms are translated: a JAAS line becomes user name and password, PEM stores become files. An
option without effect is refused, so that no user relies on an authentication that does not happen.
"""

from collections.abc import Mapping
from typing import Any, Final

from kohort.client.properties import SECURITY, credentials
from kohort.client.security import Security
from kohort.errors import ConfigError
from kohort.spark.values import named

NAMES: Final = frozenset((
    *SECURITY, "sasl.jaas.config", "ssl.truststore.type", "ssl.keystore.type",
    "ssl.endpoint.identification.algorithm",
))  # fmt: skip
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_HOSTNAME: Final = "ssl.endpoint.identification.algorithm"


def security(given: Mapping[str, str]) -> Security:
    """What `given` (names without `kafka.`) says. Raises ConfigError, which names the option."""
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    for store in ("truststore", "keystore"):
        _validate_store(given, store)
    fields = _fields(given) | {"protocol": protocol}
    if "SASL" in protocol:
        fields |= _authentication(given)
    else:
        _refuse(
            given,
            "sasl.",
            f"kafka.security.protocol is {protocol}: set it to SASL_SSL or SASL_PLAINTEXT",
        )
    if "SSL" not in protocol:
        _refuse(given, "ssl.", f"kafka.security.protocol is {protocol}: set it to SSL or SASL_SSL")
    return named("kafka.security.protocol and kafka.ssl.*", SECURITY, lambda: Security(**fields))


def _fields(given: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, str] = {}
    said: dict[str, str] = {}
    for name, field in SECURITY.items():
        if name in given and found.setdefault(field, given[name]) != given[name]:
            raise ConfigError(
                f"options kafka.{said[field]} and kafka.{name} contradict each other; give one"
            )
        said.setdefault(field, name)
    return found | {"ssl_check_hostname": _checks_hostname(given)}


def _refuse(given: Mapping[str, str], family: str, why: str) -> None:
    if found := sorted(name for name in given if name in NAMES and name.startswith(family)):
        raise ConfigError(f"option kafka.{found[0]} has no effect, as {why}, or leave it out")


def _authentication(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism")
    if mechanism not in _MECHANISMS:
        is_what = "is missing" if mechanism is None else f"is {mechanism!r}"
        raise ConfigError(
            f"option kafka.sasl.mechanism {is_what}; it is one of {', '.join(_MECHANISMS)}"
        )
    if (line := given.get("sasl.jaas.config")) is not None:
        return _credentials(given, line)
    if missing := [name for name in ("sasl.username", "sasl.password") if not given.get(name)]:
        raise ConfigError(
            f"option kafka.{missing[0]} is missing; or give both in a line, kafka.sasl.jaas.config"
        )
    return {}


def _credentials(given: Mapping[str, str], line: str) -> dict[str, str]:
    """User name and password of a JAAS line, as `sasl.jaas.config` of Java's clients has them."""
    if twice := [name for name in ("sasl.username", "sasl.password") if name in given]:
        raise ConfigError(
            f"options kafka.sasl.jaas.config and kafka.{twice[0]} contradict each other; give one"
        )
    found = credentials(line)
    if set(found) != {"username", "password"}:
        raise ConfigError(
            'option kafka.sasl.jaas.config has no username="…" and password="…"; '
            "give kafka.sasl.username and kafka.sasl.password instead"
        )
    return found


def _validate_store(given: Mapping[str, str], store: str) -> None:
    kind = given.get(f"ssl.{store}.type", "JKS")
    if f"ssl.{store}.location" in given and kind.upper() != "PEM":
        raise ConfigError(
            f"option kafka.ssl.{store}.type is {kind}: only PEM files can be read; "
            f"export the {store} (keytool),"
            f" name the file in kafka.ssl.{store}.location and set kafka.ssl.{store}.type to PEM"
        )


def _checks_hostname(given: Mapping[str, str]) -> bool:
    algorithm = given.get(_HOSTNAME, "https").lower()
    if algorithm not in ("https", "none", ""):
        raise ConfigError(
            f"option kafka.{_HOSTNAME} is {algorithm!r}; it is https, or empty for no check"
        )
    return algorithm == "https"
