"""Counters of a listener's requests, responses and bytes, since it was made."""

from collections import Counter


class RequestMetrics:
    """The counters that every connection of a listener adds to."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "errors",
        "failed",
        "hung_up",
        "logins",
        "logins_failed",
        "malformed",
        "requests",
        "sessions_expired",
        "throttled",
    )

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        """Requests by API key."""
        self.errors: Counter[tuple[int, int]] = Counter()
        """Responses that bear an error, by API key and error code."""
        self.throttled: Counter[int] = Counter()
        """Responses whose client has to wait because of its quotas, by API key."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.malformed = 0
        """Connections closed because their bytes were no request."""
        self.hung_up = 0
        """Connections that the server closed, malformed ones included."""
        self.failed = 0
        """Requests whose handler raised."""
        self.logins = 0
        """Authentications by SASL that succeeded."""
        self.logins_failed = 0
        self.sessions_expired = 0
        """Connections closed because their SASL session had ended (KIP-368)."""
