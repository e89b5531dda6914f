"""`Security` of the property names of Java's clients and librdkafka: `sasl.*` and `ssl.*`.

Java's forms are translated: a JAAS line becomes user name and password, stores become PEM text. A
property without effect is refused, so that no user relies on an authentication that does not
happen. Modules that only some of them need are imported then: every planner of Spark imports this
one.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from kohort.client.properties import (
    LIBRDKAFKA,
    SECURITY_FIELDS,
    OptionErrors,
    contradiction,
    in_javas_names,
    jaas_credentials,
    jaas_options,
    over,
    read_properties,
)
from kohort.client.security.settings import MECHANISMS, Security
from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.client.security.client_credentials import ClientCredentials
    from kohort.client.security.key_stores import KeyStore

T = TypeVar("T")

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
        "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever",
    ),
}  # fmt: skip
"""Java's classes that do what is done here, without their packages."""
_METHOD: Final = "sasl.oauthbearer.method"
_JAVAS: Final = (
    *SECURITY_FIELDS, *_CLASSES, _METHOD, _TRUSTED, _CHAIN, _KEY, _HOSTNAME, _ENDPOINT,
    _CLIENT, _SECRET, "sasl.jaas.config", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.header.urlencode", "ssl.truststore.type", "ssl.truststore.password",
    "ssl.keystore.type", "ssl.keystore.password",
)  # fmt: skip
SECURITY_PROPERTIES: Final = frozenset(
    (*_JAVAS, *(name for name in LIBRDKAFKA if LIBRDKAFKA[name] in _JAVAS))
)
"""All that `security_of_properties` reads, by the names of both."""
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
_PEM: Final = re.compile(r"-----BEGIN ([A-Z ]+)-----(.*?)-----END \1-----", re.DOTALL)
_FIELD: Final = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_FIELDS: Final = {field: name for name, field in SECURITY_FIELDS.items()}
"""Field of `Security` → property."""
_EXTENSION: Final = "extension_"
"""What the names of SASL extensions begin with in a JAAS line."""


class _Given(dict[str, str]):
    """Properties by Java's names, and what errors put before each name."""

    def __init__(self, given: Mapping[str, str], prefix: str) -> None:
        """Raises ConfigError if one is given twice, by Java's name and librdkafka's."""
        known = {name: value for name, value in given.items() if name in SECURITY_PROPERTIES}
        super().__init__(in_javas_names(known, prefix=prefix))
        self.prefix = prefix


def security_of_properties(properties: Mapping[str, str], *, prefix: str = "") -> Security:
    """The `Security` that `properties` describe; those of other families are ignored.

    Raises ConfigError, which names all that is wrong, also stores that cannot be read. `prefix` is
    what the error puts before each name.
    """
    given = _Given(properties, prefix)
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    refusals, nothing = OptionErrors(), dict[str, Any]()
    fields: dict[str, Any] = {"protocol": protocol}
    if "SASL" in protocol:
        fields |= refusals.of(lambda: _authentication(given), nothing)
    else:
        refusals.add(_pointless(given, protocol, "sasl.", "SASL_SSL or SASL_PLAINTEXT"))
    if "SSL" in protocol:
        for part in (_checked_hostname, _authorities, _certificate):
            fields |= refusals.of(partial(part, given), nothing)
    else:
        refusals.add(_pointless(given, protocol, "ssl.", "SSL or SASL_SSL"))
    refusals.end()
    families = f"{prefix}security.protocol and {prefix}ssl.*"
    found = _named(given, families, lambda: Security(**fields))
    _named(given, f"{prefix}ssl.*", found.context)
    return found


def security_of_file(
    path: str | Path, explicit: Mapping[str, str] = MappingProxyType({})
) -> Security:
    """The `Security` of a properties file, as `--command-config` of Kafka's tools.

    `explicit` properties replace those of the file that say the same thing. Other properties in the
    file are ignored. Raises ConfigError.
    """
    try:
        return security_of_properties(over(read_properties(Path(path)), explicit))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _named(given: _Given, options: str, make: Callable[[], T]) -> T:
    """What `make` makes; its ConfigError names `options`, and properties in place of fields."""
    try:
        return make()
    except ConfigError as error:
        properties = {field: given.prefix + name for field, name in _FIELDS.items()}
        text = _FIELD.sub(lambda found: properties.get(found[0], found[0]), str(error))
        raise ConfigError(f"options {options}: {text}") from None


def _pointless(given: _Given, protocol: str, family: str, fit: str) -> list[str]:
    """The refusals of properties that belong to another protocol."""
    prefix = given.prefix
    return [
        f"option {prefix}{name} has no effect, as {prefix}security.protocol is {protocol}: "
        f"set it to {fit}, or leave it out"
        for name in sorted(given)
        if name.startswith(family)
    ]


def _contradiction(given: _Given, *names: str) -> None:
    """Raise ConfigError if two of the properties are given with different values."""
    found = [name for name in names if name in given]
    if len({given[name] for name in found}) > 1:
        raise contradiction(found[0], found[1], given.prefix)


# --- SASL ---


def _authentication(given: _Given) -> dict[str, Any]:
    mechanism = given.get("sasl.mechanism")
    if mechanism not in MECHANISMS:
        is_what = "is missing" if mechanism is None else f"is {mechanism!r}"
        raise ConfigError(
            f"option {given.prefix}sasl.mechanism {is_what}; it is one of {', '.join(MECHANISMS)}"
        )
    for name, classes in _CLASSES.items():
        if name in given and given[name].rpartition(".")[2] not in classes:
            raise ConfigError(
                f"option {given.prefix}{name} is a class of Java, which cannot be run; leave it out"
            )
    if (method := given.get(_METHOD, "oidc")) != "oidc":
        raise ConfigError(f"option {given.prefix}{_METHOD} is {method}; only oidc gets tokens here")
    if mechanism == "OAUTHBEARER":
        return {"mechanism": mechanism} | _token(given)
    return {"mechanism": mechanism} | _user(given)


def _user(given: _Given) -> dict[str, str]:
    names = ("sasl.username", "sasl.password")
    if (line := given.get("sasl.jaas.config")) is not None:
        _contradiction(given, "sasl.jaas.config", *names)
        found = jaas_credentials(line)
        if set(found) != {"username", "password"}:
            raise ConfigError(
                f'option {given.prefix}sasl.jaas.config has no username="…" and password="…"; '
                f"give {given.prefix}sasl.username and {given.prefix}sasl.password instead"
            )
        return found
    if missing := [name for name in names if not given.get(name)]:
        raise ConfigError(
            f"option {given.prefix}{missing[0]} is missing; or give both in a line, "
            f"{given.prefix}sasl.jaas.config"
        )
    return {"username": given[names[0]], "password": given[names[1]]}


def _token(given: _Given) -> dict[str, Any]:
    """A token in a file, or those of an endpoint; and SASL extensions of the JAAS line."""
    line = jaas_options(given.get("sasl.jaas.config", ""))
    url = given.get(_ENDPOINT)
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in line.items()
        if name.startswith(_EXTENSION)
    }
    if not url:
        raise ConfigError(
            f"option {given.prefix}{_ENDPOINT} is missing: OAUTHBEARER gets tokens there"
        )
    if url.startswith("file:"):
        path = Path(unquote(urlsplit(url).path))
        return {
            "token": lambda: path.read_text(encoding="utf-8-sig").strip(),
            "extensions": extensions,
        }
    return {"token": _client_credentials(given, url, line), "extensions": extensions}


def _client_credentials(given: _Given, url: str, line: Mapping[str, str]) -> "ClientCredentials":
    """Id and secret are those of Kafka 4's properties, else of the JAAS line, as in Java."""
    from kohort.client.security.client_credentials import ClientCredentials

    client_id = given.get(_CLIENT, line.get("clientId"))
    secret = given.get(_SECRET, line.get("clientSecret"))
    if client_id is None or secret is None:
        raise ConfigError(
            f"option {given.prefix}{_CLIENT if client_id is None else _SECRET} is missing; or give "
            f'clientId="…" clientSecret="…" in {given.prefix}sasl.jaas.config'
        )
    encode = given.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true"
    scope = given.get("sasl.oauthbearer.scope", line.get("scope"))
    return _named(
        given,
        given.prefix + _ENDPOINT,
        lambda: ClientCredentials(url, client_id, secret, scope=scope, encode=encode),
    )


# --- TLS ---


def _checked_hostname(given: _Given) -> dict[str, bool]:
    algorithm = given.get(_HOSTNAME, "https").lower()
    if algorithm not in ("https", "none", ""):
        raise ConfigError(
            f"option {given.prefix}{_HOSTNAME} is {algorithm!r}; it is https, or empty for no check"
        )
    return {"ssl_check_hostname": algorithm == "https"}


def _authorities(given: _Given) -> dict[str, str]:
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
        raise ConfigError(
            f"option {given.prefix}ssl.truststore.location: {path} has no certificates"
        )
    return {"ssl_cadata": store.trusted}


def _certificate(given: _Given) -> dict[str, str]:
    files = ("ssl.certificate.location", "ssl.keystore.location")
    _contradiction(given, *files)
    _contradiction(given, "ssl.keystore.location", _CHAIN)
    password = {"ssl_password": given["ssl.key.password"]} if "ssl.key.password" in given else {}
    if _CHAIN in given or _KEY in given:
        if missing := {_CHAIN, _KEY} - given.keys():
            raise ConfigError(f"option {given.prefix}{missing.pop()} is missing: both are needed")
        return {"ssl_certdata": _lines(given[_CHAIN] + given[_KEY])} | password
    key = {"ssl_keyfile": given["ssl.key.location"]} if "ssl.key.location" in given else {}
    path = next((given[name] for name in files if name in given), None)
    if path is None:
        return key
    if (store := _store(given, "keystore", path)) is None:
        return {"ssl_certfile": path} | key | password
    if not store.key:
        raise ConfigError(f"option {given.prefix}ssl.keystore.location: {path} has no private key")
    return {"ssl_certdata": store.chain + store.key}


def _lines(text: str) -> str:
    """PEM text in lines; Java takes it in one, as properties files have it."""
    from kohort.client.security.key_stores import pem

    return "".join(pem(label, "".join(body.split())) for label, body in _PEM.findall(text)) or text


def _store(given: _Given, which: str, path: str) -> "KeyStore | None":
    """The content of a JKS or PKCS12 store; None for a PEM file, which OpenSSL reads."""
    from kohort.client.security.key_stores import read_key_store

    kind = given.get(f"ssl.{which}.type", "JKS").upper()
    if kind not in _STORE_TYPES:
        raise ConfigError(
            f"option {given.prefix}ssl.{which}.type is {kind}; "
            f"it is one of {', '.join(_STORE_TYPES)}"
        )
    try:
        return read_key_store(
            path,
            given.get(f"ssl.{which}.password"),
            given.get("ssl.key.password") if which == "keystore" else None,
        )
    except ConfigError as error:
        raise ConfigError(f"option {given.prefix}ssl.{which}.location: {error}") from None
