"""`kafka.security.protocol`, `kafka.sasl.*` and `kafka.ssl.*`, by the names of Java clients.

Java's forms are translated: a JAAS line becomes user name and password, stores become PEM text. An
option without effect is refused, so that no user relies on an authentication that does not happen.
Modules that only some of them need are imported then: every planner of Spark imports this one.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kohort.client.properties import SECURITY, credentials, jaas_options
from kohort.client.security import Security
from kohort.errors import ConfigError
from kohort.spark.refusals import Refusals
from kohort.spark.values import PREFIX, named

if TYPE_CHECKING:
    from kohort.client.key_stores import KeyStore

_TRUSTED: Final = "ssl.truststore.certificates"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_KEY: Final = "ssl.keystore.key"
_HOSTNAME: Final = "ssl.endpoint.identification.algorithm"
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT: Final = "sasl.oauthbearer.client.credentials.client.id"
_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_CLASSES: Final = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    "sasl.oauthbearer.jwt.retriever.class": (
        "DefaultJwtRetriever", "ClientCredentialsJwtRetriever",
    ),
}  # fmt: skip
"""Java's classes that do what is done here, without their packages."""
NAMES: Final = frozenset((
    *SECURITY, *_CLASSES, _TRUSTED, _CHAIN, _KEY, _HOSTNAME, _ENDPOINT, _CLIENT, _SECRET,
    "sasl.jaas.config", "sasl.oauthbearer.scope", "sasl.oauthbearer.header.urlencode",
    "ssl.truststore.type", "ssl.truststore.password",
    "ssl.keystore.type", "ssl.keystore.password",
))  # fmt: skip
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
_PEM: Final = re.compile(r"-----BEGIN ([A-Z ]+)-----(.*?)-----END \1-----", re.DOTALL)
_EXTENSION: Final = "extension_"
"""What the names of SASL extensions begin with in a JAAS line."""


def security(given: Mapping[str, str]) -> Security:
    """What `given` (names without `kafka.`) says.

    Raises RefusedOptionsError, which names all that is wrong, also stores that cannot be read.
    """
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    refusals, nothing = Refusals(), dict[str, Any]()
    fields: dict[str, Any] = {"protocol": protocol}
    if "SASL" in protocol:
        fields |= refusals.of(lambda: _authentication(given), nothing)
    else:
        refusals.add(
            _pointless(
                given,
                "sasl.",
                f"kafka.security.protocol is {protocol}: set it to SASL_SSL or SASL_PLAINTEXT",
            )
        )
    if "SSL" in protocol:
        for part in (_checked_hostname, _authorities, _certificate):
            fields |= refusals.of(partial(part, given), nothing)
    else:
        refusals.add(
            _pointless(
                given, "ssl.", f"kafka.security.protocol is {protocol}: set it to SSL or SASL_SSL"
            )
        )
    refusals.end()
    found = named("kafka.security.protocol and kafka.ssl.*", SECURITY, lambda: Security(**fields))
    named("kafka.ssl.*", SECURITY, found.context)
    return found


def _pointless(given: Mapping[str, str], family: str, why: str) -> list[str]:
    """The refusals of options that belong to another protocol."""
    return [
        f"option kafka.{name} has no effect, as {why}, or leave it out"
        for name in sorted(given.keys() & NAMES)
        if name.startswith(family)
    ]


def _contradiction(given: Mapping[str, str], *names: str) -> None:
    """Raise ConfigError if two of the options are given with different values."""
    found = [name for name in names if name in given]
    if len({given[name] for name in found}) > 1:
        raise ConfigError(
            f"options kafka.{found[0]} and kafka.{found[1]} contradict each other; give one"
        )


# --- SASL ---


def _authentication(given: Mapping[str, str]) -> dict[str, Any]:
    mechanism = given.get("sasl.mechanism")
    if mechanism not in _MECHANISMS:
        is_what = "is missing" if mechanism is None else f"is {mechanism!r}"
        raise ConfigError(
            f"option kafka.sasl.mechanism {is_what}; it is one of {', '.join(_MECHANISMS)}"
        )
    for name, classes in _CLASSES.items():
        if name in given and given[name].rpartition(".")[2] not in classes:
            raise ConfigError(
                f"option kafka.{name} is a class of Java, which cannot be run; leave it out"
            )
    if mechanism == "OAUTHBEARER":
        return {"mechanism": mechanism} | _client_credentials(given)
    return {"mechanism": mechanism} | _user(given)


def _user(given: Mapping[str, str]) -> dict[str, str]:
    names = ("sasl.username", "sasl.password")
    if (line := given.get("sasl.jaas.config")) is not None:
        _contradiction(given, "sasl.jaas.config", *names)
        found = credentials(line)
        if set(found) != {"username", "password"}:
            raise ConfigError(
                'option kafka.sasl.jaas.config has no username="…" and password="…"; '
                "give kafka.sasl.username and kafka.sasl.password instead"
            )
        return found
    if missing := [name for name in names if not given.get(name)]:
        raise ConfigError(
            f"option kafka.{missing[0]} is missing; or give both in a line, kafka.sasl.jaas.config"
        )
    return {"username": given[names[0]], "password": given[names[1]]}


def _client_credentials(given: Mapping[str, str]) -> dict[str, Any]:
    """Id and secret are those of Kafka 4's properties, else of the JAAS line, as in Java."""
    from kohort.client.client_credentials import ClientCredentials

    line = jaas_options(given.get("sasl.jaas.config", ""))
    url = given.get(_ENDPOINT)
    client_id, secret = (
        given.get(_CLIENT, line.get("clientId")),
        given.get(_SECRET, line.get("clientSecret")),
    )
    if not url:
        raise ConfigError(f"option kafka.{_ENDPOINT} is missing: OAUTHBEARER gets tokens there")
    if client_id is None or secret is None:
        raise ConfigError(
            f"option kafka.{_CLIENT if client_id is None else _SECRET} is missing; or give "
            'clientId="…" clientSecret="…" in kafka.sasl.jaas.config'
        )
    encode = given.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true"
    scope = given.get("sasl.oauthbearer.scope", line.get("scope"))
    token = named(
        PREFIX + _ENDPOINT,
        {},
        lambda: ClientCredentials(url, client_id, secret, scope=scope, encode=encode),
    )
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in line.items()
        if name.startswith(_EXTENSION)
    }
    return {"token": token, "extensions": extensions}


# --- TLS ---


def _checked_hostname(given: Mapping[str, str]) -> dict[str, bool]:
    algorithm = given.get(_HOSTNAME, "https").lower()
    if algorithm not in ("https", "none", ""):
        raise ConfigError(
            f"option kafka.{_HOSTNAME} is {algorithm!r}; it is https, or empty for no check"
        )
    return {"ssl_check_hostname": algorithm == "https"}


def _authorities(given: Mapping[str, str]) -> dict[str, str]:
    files = ("ssl.ca.location", "ssl.truststore.location")
    _contradiction(given, *files)
    _contradiction(given, "ssl.truststore.location", _TRUSTED)
    if _TRUSTED in given:
        return {"ssl_cadata": _lines(given[_TRUSTED])}
    path = next((given[name] for name in files if name in given), None)
    if path is None:
        return {}
    if (store := _store(given, "truststore", path)) is None:
        return {"ssl_cafile": path}
    if not store.trusted:
        raise ConfigError(f"option kafka.ssl.truststore.location: {path} has no certificates")
    return {"ssl_cadata": store.trusted}


def _certificate(given: Mapping[str, str]) -> dict[str, str]:
    files = ("ssl.certificate.location", "ssl.keystore.location")
    _contradiction(given, *files)
    _contradiction(given, "ssl.keystore.location", _CHAIN)
    password = {"ssl_password": given["ssl.key.password"]} if "ssl.key.password" in given else {}
    if _CHAIN in given or _KEY in given:
        if missing := {_CHAIN, _KEY} - given.keys():
            raise ConfigError(f"option kafka.{missing.pop()} is missing: both are needed")
        return {"ssl_certdata": _lines(given[_CHAIN] + given[_KEY])} | password
    key = {"ssl_keyfile": given["ssl.key.location"]} if "ssl.key.location" in given else {}
    path = next((given[name] for name in files if name in given), None)
    if path is None:
        return key
    if (store := _store(given, "keystore", path)) is None:
        return {"ssl_certfile": path} | key | password
    if not store.key:
        raise ConfigError(f"option kafka.ssl.keystore.location: {path} has no private key")
    return {"ssl_certdata": store.chain + store.key}


def _lines(text: str) -> str:
    """PEM text in lines; Java takes it in one, as properties files have it."""
    from kohort.client.key_stores import pem

    return "".join(pem(label, "".join(body.split())) for label, body in _PEM.findall(text)) or text


def _store(given: Mapping[str, str], which: str, path: str) -> "KeyStore | None":
    """The content of a JKS or PKCS12 store; None for a PEM file, which OpenSSL reads."""
    from kohort.client.key_stores import read_key_store

    kind = given.get(f"ssl.{which}.type", "JKS").upper()
    if kind not in _STORE_TYPES:
        raise ConfigError(
            f"option kafka.ssl.{which}.type is {kind}; it is one of {', '.join(_STORE_TYPES)}"
        )
    try:
        return read_key_store(
            path,
            given.get(f"ssl.{which}.password"),
            given.get("ssl.key.password") if which == "keystore" else None,
        )
    except ConfigError as error:
        raise ConfigError(f"option kafka.ssl.{which}.location: {error}") from None
