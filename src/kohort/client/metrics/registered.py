"""The clients of a process whose metrics are gathered: each by its name, until it is closed."""

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Final

from kohort.client.metrics.sampling import Measured, kind_of
from kohort.client.metrics.values import Metrics
from kohort.errors import ConfigError

_numbers: Final = itertools.count(1)


class RegisteredClients:
    """Clients by name. Used from any thread."""

    def __init__(self) -> None:
        self._clients: dict[str, Measured] = {}

    def add(self, client: Measured, name: str | None) -> None:
        """Gather the metrics of an open client until it is closed.

        The name is by default its kind and a number. Raises ConfigError for one that is taken,
        KohortError for a group that was not entered.
        """
        kind = kind_of(client.metrics())
        deque(self.metrics(), maxlen=0)  # a process that is never scraped keeps no closed clients
        chosen = f"{kind}-{next(_numbers)}" if name is None else name
        if self._clients.setdefault(chosen, client) is not client:
            raise ConfigError(f"metrics of a client named {chosen!r} are gathered already")

    def metrics(self) -> Iterator[tuple[str, Metrics]]:
        """Name and metrics of each client that is open; those that were closed are forgotten."""
        for name, client in tuple(self._clients.items()):
            metrics = client.metrics()
            if metrics.is_closed:
                self._clients.pop(name, None)
            else:
                yield name, metrics
