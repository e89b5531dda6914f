"""The client and the listener of a connection: its principal and host, and the endpoint."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kohort.security.principal import KafkaPrincipal

NODE_LISTENER: Final = "node-to-node"
"""The listener between the nodes of a cluster; client listeners cannot have this name."""


class SecurityProtocol(StrEnum):
    """Security protocol of a listener, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A listener with its advertised address."""

    listener: str
    """Its name, in upper case."""
    security_protocol: SecurityProtocol
    host: str
    """Advertised host; clients connect to it and to `port`."""
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The client of a connection; replaced once it has authenticated."""

    principal: KafkaPrincipal
    host: str
    """Its IP address in Java's format: "127.0.0.1", "0:0:0:0:0:0:0:1"."""
    endpoint: Endpoint
    """The listener to which it connected."""

    @property
    def is_node(self) -> bool:
        """Whether it is another node of the cluster."""
        return self.endpoint.listener == NODE_LISTENER
