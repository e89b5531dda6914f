"""A client's configuration: Kafka's names with underscores, times in ms, checked on creation."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.client.properties import checks_arguments
from kohort.client.security import PLAINTEXT, Security
from kohort.errors import ConfigError

Address = tuple[str, int]
"""Host and port of a broker."""

MAX_MS: Final = 2**31 - 1
REBOOTSTRAP: Final = "rebootstrap"
STRATEGIES: Final = (REBOOTSTRAP, "none")
"""Values of `metadata.recovery.strategy`."""
_MAX_STRING_BYTES: Final = 32_767
"""Bytes of the longest string in a request."""
_DURATIONS: Final = {
    "request_timeout_ms": 1,
    "default_api_timeout_ms": 1,
    "socket_connection_setup_timeout_ms": 1,
    "connections_max_idle_ms": 1,
    "retry_backoff_ms": 0,
    "retry_backoff_max_ms": 0,
    "metadata_max_age_ms": 1,
    "metadata_recovery_rebootstrap_trigger_ms": 0,
}
"""Names, and the least value of each."""


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Kafka's CommonClientConfigs. Raises ConfigError, whose text has the remedy."""

    bootstrap: str | Sequence[str] = "localhost:9092"
    """`bootstrap.servers`: HOST:PORT, several with commas or as a sequence; all are tried."""
    client_id: str = "kohort"
    request_timeout_ms: int = 30_000
    """Time limit of one request; after it the connection is closed."""
    default_api_timeout_ms: int = 60_000
    """Time limit of an operation that takes several requests or attempts."""
    socket_connection_setup_timeout_ms: int = 10_000
    """Time limit of connecting to one address, with TLS and authentication."""
    connections_max_idle_ms: int = 540_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    metadata_recovery_strategy: str = "rebootstrap"
    """"rebootstrap": start again from the bootstrap servers if the known brokers cannot be reached,
    or a broker requires it (KIP-899, KIP-1102); "none": do not."""
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    """Time without metadata after which the client starts again from the bootstrap servers."""
    metadata_cluster_check_enable: bool = True
    """Send brokers the expected cluster id and node id (KIP-1242), which Kafka checks since 4.4."""
    max_in_flight_requests_per_connection: int = 64
    """Requests without a response yet; further ones wait."""
    max_response_bytes: int = 256 * 1024 * 1024
    """The largest response that is accepted; a larger size does not come from a Kafka broker."""
    security: Security = PLAINTEXT

    def __post_init__(self) -> None:
        for name, least in _DURATIONS.items():
            validate_int(name, getattr(self, name), least, MAX_MS)
        validate_int(
            "max_in_flight_requests_per_connection",
            self.max_in_flight_requests_per_connection,
            1,
            MAX_MS,
        )
        validate_one_of("metadata_recovery_strategy", self.metadata_recovery_strategy, STRATEGIES)
        validate_flag("metadata_cluster_check_enable", self.metadata_cluster_check_enable)
        validate_int("max_response_bytes", self.max_response_bytes, 1024, MAX_MS)
        validate_text("client_id", self.client_id)
        parse_bootstrap(self.bootstrap)
        if not isinstance(self.security, Security):
            raise ConfigError(
                f"security is {self.security!r}; it has to be a Security, such as "
                "Security(protocol='SSL', ssl_cafile='ca.pem')"
            )

    @property
    def rebootstraps(self) -> bool:
        """Whether the client may start again from the bootstrap servers."""
        return self.metadata_recovery_strategy == REBOOTSTRAP

    @property
    def checks_cluster(self) -> bool:
        """Whether brokers get the expected cluster id and node id."""
        return self.rebootstraps and self.metadata_cluster_check_enable

    @property
    def servers(self) -> tuple[Address, ...]:
        """The bootstrap servers, each once, in the order given."""
        return parse_bootstrap(self.bootstrap)


UNIX: Final = "unix:"
"""Begins the host of a server on this machine that is reached by a Unix socket, before its path."""


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[Address, ...]:
    """The addresses in `bootstrap.servers`, each once. Raises ConfigError."""
    if not isinstance(bootstrap, str) and not _are_texts(bootstrap):
        raise ConfigError(
            f"bootstrap is {bootstrap!r}; it has to be a str, such as 'localhost:9092', or a list "
            "of them"
        )
    parts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    addresses = dict.fromkeys(parse_address(part.strip()) for part in parts if part.strip())
    if not addresses:
        raise ConfigError("bootstrap names no server; give HOST:PORT, such as localhost:9092")
    return tuple(addresses)


def parse_address(text: str) -> Address:
    """Host and port of HOST:PORT or [IPV6]:PORT; a PROTOCOL:// in front is ignored.

    A Unix socket, `unix:/PATH`, is a host with port 0. Raises ConfigError.
    """
    if text.startswith(UNIX):
        return text, 0
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not colon
        or not host
        or not port.isdecimal()
        or not 0 < int(port) < 65_536
        or (":" in host and not bracketed)
    ):
        raise ConfigError(
            f"bootstrap server {text!r} is not HOST:PORT, such as localhost:9092 or [::1]:9092"
        )
    return host.strip("[]"), int(port)


def validate_text(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is a str that has room in a request."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {value!r}; it has to be a str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{name} {value!r} is not text that can be sent") from None
    if size > _MAX_STRING_BYTES:
        raise ConfigError(
            f"{name} is longer than the {_MAX_STRING_BYTES:,} bytes that a request has room for"
        )


def validate_names(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is a collection of names."""
    if isinstance(value, str):
        raise ConfigError(
            f"{name}: a list of names is needed; for the one name, write {name}=[{value!r}]"
        )
    if not _are_texts(value):
        raise ConfigError(f"{name} is {value!r}; it has to be a list of names")


def _are_texts(value: object) -> bool:
    return (
        isinstance(value, Collection)
        and not isinstance(value, Mapping)
        and all(isinstance(item, str) for item in value)
    )


def validate_flag(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it has to be True or False")


def validate_one_of(name: str, value: object, values: Sequence[object]) -> None:
    """Raise ConfigError unless `value` is one of these."""
    if value not in values:
        raise ConfigError(f"{name} is {value!r}; it has to be one of {', '.join(map(str, values))}")


def validate_int(name: str, value: object, least: int, most: int) -> None:
    """Raise ConfigError unless `value` is an int within the bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(
            f"{name} is {value!r}; it has to be a whole number from {least:,} to {most:,}"
        )
