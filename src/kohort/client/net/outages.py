"""Logs a warning when a broker is unreachable, and when it is reachable again.

Most calls retry for a minute before they raise, so a wrong address would else look like a hang. An
address is logged at its first failed attempt, then at most every LOG_INTERVAL_S.
"""

import logging
from typing import Final

from kohort.client.backoff import described
from kohort.client.config import Address
from kohort.client.net.connect_errors import format_address

LOG_INTERVAL_S: Final = 10.0

log: Final = logging.getLogger("kohort.client.net")


class Outages:
    """The unreachable addresses of one client. Times are in seconds of any clock."""

    def __init__(self) -> None:
        self._last_logged: dict[Address, float] = {}

    def failed(self, address: Address, error: Exception, now: float) -> None:
        """An attempt failed; `error` names the address."""
        last_logged = self._last_logged.get(address)
        if last_logged is None or now - last_logged >= LOG_INTERVAL_S:
            self._last_logged[address] = now
            log.warning("broker unreachable, retrying: %s", described(error))

    def reached(self, address: Address) -> None:
        """An attempt succeeded."""
        if self._last_logged.pop(address, None) is not None:
            log.warning("broker reachable again: %s", format_address(address))
