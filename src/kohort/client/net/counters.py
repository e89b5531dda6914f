"""Counters of the connections of one client."""

from kohort.client.metrics import DurationCounter, ReasonCounter


class NetCounters:
    """Counters that all connections of a client share."""

    __slots__ = (
        "failed", "failures", "opened", "received_bytes", "requests", "retries", "sent_bytes",
        "throttled",
    )  # fmt: skip

    def __init__(self) -> None:
        self.opened = 0
        self.failed = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.requests: dict[str, DurationCounter] = {}
        """Time from request to response, by API."""
        self.failures = ReasonCounter()
        """Requests without a response, by API."""
        self.throttled = DurationCounter()
        self.retries = ReasonCounter()

    def responded(self, api: str, seconds: float, size: int) -> None:
        """A response of `size` bytes arrived."""
        self.received_bytes += size
        counter = self.requests.get(api)
        if counter is None:
            counter = self.requests[api] = DurationCounter()
        counter.observe(seconds)
