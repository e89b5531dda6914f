"""Limits on the connections of a listener, and on what they send."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of a listener; the defaults are Kafka's."""

    connections: int = 2**31 - 1
    connections_per_ip: int = 2**31 - 1
    idle_ms: int = 600_000
    """0 or less: connections may be idle for ever."""
    request_bytes: int = 104_857_600
    queued_bytes: int = -1
    response_bytes: int = 268_435_456
    """Bytes of unread responses of all connections; 0 or less: unlimited."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "ConnectionLimits":
        """The limits that a server's configuration sets."""
        return cls(
            connections=config["max.connections"],
            connections_per_ip=config["max.connections.per.ip"],
            idle_ms=config["connections.max.idle.ms"],
            request_bytes=config["socket.request.max.bytes"],
            queued_bytes=config["queued.max.request.bytes"],
            response_bytes=config["queued.max.response.bytes"],
        )
