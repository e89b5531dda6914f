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
"""Java's classes with the function of this client, without their packages."""
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
"""Prefix of the names of SASL extensions in a JAAS line."""


class _OwnProperties(dict[str, str]):
    """Security properties by Java's names, with a prefix for names in errors."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        """Raises ConfigError if one is given twice, by Java's name and librdkafka's."""
        own_properties = {
            name: value for name, value in properties.items() if name in SECURITY_PROPERTIES
        }
        super().__init__(in_javas_names(own_properties, prefix=prefix))
        self.prefix = prefix


def security_of_properties(properties: Mapping[str, str], *, prefix: str = "") -> Security:
    """The `Security` that `properties` describe; properties of other families are ignored.

    Raises ConfigError with all errors, including unreadable stores. `prefix` precedes each name in
    the error.
    """
    own_properties = _OwnProperties(properties, prefix)
    protocol = own_properties.get("security.protocol", "PLAINTEXT").upper()
    refusals, nothing = OptionErrors(), dict[str, Any]()
    fields: dict[str, Any] = {"protocol": protocol}
    if "SASL" in protocol:
        fields |= refusals.of(lambda: _authentication(own_properties), nothing)
    else:
        refusals.add(_pointless(own_properties, protocol, "sasl.", "SASL_SSL or SASL_PLAINTEXT"))
    if "SSL" in protocol:
        for part in (_checked_hostname, _authorities, _certificate):
            fields |= refusals.of(partial(part, own_properties), nothing)
    else:
        refusals.add(_pointless(own_properties, protocol, "ssl.", "SSL or SASL_SSL"))
    refusals.end()
    families = f"{prefix}security.protocol and {prefix}ssl.*"
    security = _named(own_properties, families, lambda: Security(**fields))
    _named(own_properties, f"{prefix}ssl.*", security.context)
    return security


def security_of_file(
    path: str | Path, explicit: Mapping[str, str] = MappingProxyType({})
) -> Security:
    """The `Security` of a properties file, as `--command-config` of Kafka's tools.

    `explicit` properties replace those of the file with the same meaning. Other properties of the
    file are ignored. Raises ConfigError.
    """
    try:
        return security_of_properties(over(read_properties(Path(path)), explicit))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _named(own_properties: _OwnProperties, options: str, make: Callable[[], T]) -> T:
    """Call `make`; its ConfigError names `options`, and properties in place of fields."""
    try:
        return make()
    except ConfigError as error:
        properties = {field: own_properties.prefix + name for field, name in _FIELDS.items()}
        text = _FIELD.sub(lambda match: properties.get(match[0], match[0]), str(error))
        raise ConfigError(f"options {options}: {text}") from None


def _pointless(properties: _OwnProperties, protocol: str, family: str, fit: str) -> list[str]:
    """The refusals of properties that belong to another protocol."""
    prefix = properties.prefix
    return [
        f"option {prefix}{name} has no effect, as {prefix}security.protocol is {protocol}: "
        f"set it to {fit}, or leave it out"
        for name in sorted(properties)
        if name.startswith(family)
    ]


def _contradiction(properties: _OwnProperties, *names: str) -> None:
    """Raise ConfigError if two of the properties are given with different values."""
    present = [name for name in names if name in properties]
    if len({properties[name] for name in present}) > 1:
        raise contradiction(present[0], present[1], properties.prefix)


# --- SASL ---


def _authentication(properties: _OwnProperties) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism")
    if mechanism not in MECHANISMS:
        is_what = "is missing" if mechanism is None else f"is {mechanism!r}"
        raise ConfigError(
            f"option {properties.prefix}sasl.mechanism {is_what}; "
            f"it is one of {', '.join(MECHANISMS)}"
        )
    for name, classes in _CLASSES.items():
        if name in properties and properties[name].rpartition(".")[2] not in classes:
            raise ConfigError(
                f"option {properties.prefix}{name} is a class of Java, which cannot be run; "
                "leave it out"
            )
    if (method := properties.get(_METHOD, "oidc")) != "oidc":
        raise ConfigError(
            f"option {properties.prefix}{_METHOD} is {method}; only oidc gets tokens here"
        )
    if mechanism == "OAUTHBEARER":
        return {"mechanism": mechanism} | _token(properties)
    return {"mechanism": mechanism} | _user(properties)


def _user(properties: _OwnProperties) -> dict[str, str]:
    names = ("sasl.username", "sasl.password")
    if (line := properties.get("sasl.jaas.config")) is not None:
        _contradiction(properties, "sasl.jaas.config", *names)
        credentials = jaas_credentials(line)
        if set(credentials) != {"username", "password"}:
            raise ConfigError(
                f'option {properties.prefix}sasl.jaas.config has no username="…" and password="…"; '
                f"give {properties.prefix}sasl.username and "
                f"{properties.prefix}sasl.password instead"
            )
        return credentials
    if missing := [name for name in names if not properties.get(name)]:
        raise ConfigError(
            f"option {properties.prefix}{missing[0]} is missing; or give both in a line, "
            f"{properties.prefix}sasl.jaas.config"
        )
    return {"username": properties[names[0]], "password": properties[names[1]]}


def _token(properties: _OwnProperties) -> dict[str, Any]:
    """The source of tokens, a file or an endpoint, and SASL extensions of the JAAS line."""
    line = jaas_options(properties.get("sasl.jaas.config", ""))
    url = properties.get(_ENDPOINT)
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in line.items()
        if name.startswith(_EXTENSION)
    }
    if not url:
        raise ConfigError(
            f"option {properties.prefix}{_ENDPOINT} is missing: OAUTHBEARER gets tokens there"
        )
    if url.startswith("file:"):
        path = Path(unquote(urlsplit(url).path))
        return {
            "token": lambda: path.read_text(encoding="utf-8-sig").strip(),
            "extensions": extensions,
        }
    return {"token": _client_credentials(properties, url, line), "extensions": extensions}


def _client_credentials(
    properties: _OwnProperties, url: str, line: Mapping[str, str]
) -> "ClientCredentials":
    """Id and secret come from Kafka 4's properties, else from the JAAS line, as in Java."""
    from kohort.client.security.client_credentials import ClientCredentials

    client_id = properties.get(_CLIENT, line.get("clientId"))
    secret = properties.get(_SECRET, line.get("clientSecret"))
    if client_id is None or secret is None:
        raise ConfigError(
            f"option {properties.prefix}{_CLIENT if client_id is None else _SECRET} is missing; "
            "or give "
            f'clientId="…" clientSecret="…" in {properties.prefix}sasl.jaas.config'
        )
    encode = properties.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true"
    scope = properties.get("sasl.oauthbearer.scope", line.get("scope"))
    return _named(
        properties,
        properties.prefix + _ENDPOINT,
        lambda: ClientCredentials(url, client_id, secret, scope=scope, encode=encode),
    )


# --- TLS ---


def _checked_hostname(properties: _OwnProperties) -> dict[str, bool]:
    algorithm = properties.get(_HOSTNAME, "https").lower()
    if algorithm not in ("https", "none", ""):
        raise ConfigError(
            f"option {properties.prefix}{_HOSTNAME} is {algorithm!r}; "
            "it is https, or empty for no check"
        )
    return {"ssl_check_hostname": algorithm == "https"}


def _authorities(properties: _OwnProperties) -> dict[str, str]:
    files = ("ssl.ca.location", "ssl.truststore.location")
    _contradiction(properties, *files)
    _contradiction(properties, "ssl.truststore.location", _TRUSTED)
    if _TRUSTED in properties:
        return {"ssl_cadata": _lines(properties[_TRUSTED])}
    path = next((properties[name] for name in files if name in properties), None)
    if path is None:
        return {}
    if (store := _store(properties, "truststore", path)) is None:
        return {"ssl_cafile": path}
    if not store.trusted:
        raise ConfigError(
            f"option {properties.prefix}ssl.truststore.location: {path} has no certificates"
        )
    return {"ssl_cadata": store.trusted}


def _certificate(properties: _OwnProperties) -> dict[str, str]:
    files = ("ssl.certificate.location", "ssl.keystore.location")
    _contradiction(properties, *files)
    _contradiction(properties, "ssl.keystore.location", _CHAIN)
    password = (
        {"ssl_password": properties["ssl.key.password"]} if "ssl.key.password" in properties else {}
    )
    if _CHAIN in properties or _KEY in properties:
        if missing := {_CHAIN, _KEY} - properties.keys():
            raise ConfigError(
                f"option {properties.prefix}{missing.pop()} is missing: both are needed"
            )
        return {"ssl_certdata": _lines(properties[_CHAIN] + properties[_KEY])} | password
    key = (
        {"ssl_keyfile": properties["ssl.key.location"]} if "ssl.key.location" in properties else {}
    )
    path = next((properties[name] for name in files if name in properties), None)
    if path is None:
        return key
    if (store := _store(properties, "keystore", path)) is None:
        return {"ssl_certfile": path} | key | password
    if not store.key:
        raise ConfigError(
            f"option {properties.prefix}ssl.keystore.location: {path} has no private key"
        )
    return {"ssl_certdata": store.chain + store.key}


def _lines(text: str) -> str:
    """PEM text in lines; Java takes it in one, as properties files have it."""
    from kohort.client.security.key_stores import pem

    return "".join(pem(label, "".join(body.split())) for label, body in _PEM.findall(text)) or text


def _store(properties: _OwnProperties, which: str, path: str) -> "KeyStore | None":
    """The content of a JKS or PKCS12 store; None for a PEM file, which OpenSSL reads."""
    from kohort.client.security.key_stores import read_key_store

    kind = properties.get(f"ssl.{which}.type", "JKS").upper()
    if kind not in _STORE_TYPES:
        raise ConfigError(
            f"option {properties.prefix}ssl.{which}.type is {kind}; "
            f"it is one of {', '.join(_STORE_TYPES)}"
        )
    try:
        return read_key_store(
            path,
            properties.get(f"ssl.{which}.password"),
            properties.get("ssl.key.password") if which == "keystore" else None,
        )
    except ConfigError as error:
        raise ConfigError(f"option {properties.prefix}ssl.{which}.location: {error}") from None
