"""Limits on the connections of a server, and on what they send."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.server.config import Config

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of a server; the defaults are Kafka's."""

    connections: int = UNLIMITED
    connections_of: Mapping[str, int] = field(default_factory=dict)
    """By listener."""
    connections_per_ip: int = UNLIMITED
    connections_per_ip_of: Mapping[str, int] = field(default_factory=dict)
    """By IP address, as Java prints it."""
    creation_rate: int = UNLIMITED
    """Connections per second."""
    creation_rate_of: Mapping[str, int] = field(default_factory=dict)
    """By listener."""
    for_nodes: str | None = None
    """The listener by which nodes connect to each other, if clients have others.

    As in Kafka, `connections` and `creation_rate` do not hold it up: clients could cut off a node.
    """
    idle_ms: int = 600_000
    """0 or less: connections may be idle for ever."""
    request_bytes: int = 104_857_600
    queued_bytes: int = -1
    response_bytes: int = 268_435_456
    """Bytes of unread responses of all connections; 0 or less: unlimited."""

    @classmethod
    def of(cls, config: Config) -> "ConnectionLimits":
        """The limits that a server's configuration sets."""
        listeners = [listener.name for listener in config.listeners]

        def of_each(name: str) -> dict[str, int]:
            return {
                listener: own
                for listener in listeners
                if (own := config.own_of_listener(listener, name)) is not None
            }

        inter_broker = config.inter_broker if len(listeners) > 1 else None
        return cls(
            for_nodes=None if inter_broker is None else inter_broker.listener.name,
            connections=config["max.connections"],
            connections_of=of_each("max.connections"),
            connections_per_ip=config["max.connections.per.ip"],
            connections_per_ip_of=config.connections_per_ip,
            creation_rate=config["max.connection.creation.rate"],
            creation_rate_of=of_each("max.connection.creation.rate"),
            idle_ms=config["connections.max.idle.ms"],
            request_bytes=config["socket.request.max.bytes"],
            queued_bytes=config["queued.max.request.bytes"],
            response_bytes=config["queued.max.response.bytes"],
        )
