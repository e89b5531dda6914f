"""The client and the listener of a connection: its principal and host, and the endpoint."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kohort.security.principal import KafkaPrincipal

NODE_LISTENER: Final = "node-to-node"
"""The listener of a cluster's nodes for each other: no listener for clients can have this name."""


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
    """A listener as its clients know it."""

    listener: str
    """Its name, in upper case."""
    security_protocol: SecurityProtocol
    host: str
    """Advertised: the host and port that clients connect to."""
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The client of a connection; another value once it has authenticated."""

    principal: KafkaPrincipal
    host: str
    """Its IP address as Java prints it: "127.0.0.1", "0:0:0:0:0:0:0:1"."""
    endpoint: Endpoint
    """The listener it connected to."""

    @property
    def is_node(self) -> bool:
        """Whether it is another node of the cluster."""
        return self.endpoint.listener == NODE_LISTENER
