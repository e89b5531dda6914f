"""Maps the property names of Java's and librdkafka's clients to the fields here."""

import re
from pathlib import Path
from typing import Final

from kohort.errors import ConfigError

DURATIONS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
}
"""Property → field of `ClientConfig`, in ms."""
SECURITY: Final = {
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
}
"""Property → field of `Security`, as text."""
_DROPPED: Final = re.compile(r"^[ \t]*[#!].*|\\\n[ \t]*", re.MULTILINE)
"""Comments, in which a backslash continues nothing, and the ends of lines that are continued."""
_JAAS_OPTION: Final = re.compile(
    r"""\b(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)


def read_properties(path: Path) -> dict[str, str]:
    """The properties in a file: lines NAME=VALUE, which a backslash continues, and comments.

    Raises ConfigError.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}") from None
    properties = {}
    for line in _DROPPED.sub("", "\n".join(lines)).splitlines():
        name, equals, value = line.strip().partition("=")
        if equals:
            properties[name.strip()] = value.strip()
    return properties


def jaas_options(jaas: str) -> dict[str, str]:
    """The options of a `sasl.jaas.config` line.

    As in Java, a value is in double or single quotes, or in none.
    """
    found = {name: (twice or once, bare) for name, twice, once, bare in _JAAS_OPTION.findall(jaas)}
    return {name: bare or re.sub(r"\\(.)", r"\1", quoted) for name, (quoted, bare) in found.items()}


def credentials(jaas: str) -> dict[str, str]:
    """`username` and `password` of a `sasl.jaas.config` line, if it has them."""
    found = jaas_options(jaas)
    return {name: found[name] for name in ("username", "password") if name in found}
