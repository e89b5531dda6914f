"""Tells of brokers that cannot be reached, by warnings on a logger, and when they are again.

Most calls retry for a minute before they raise, so a wrong address would else look like silence. An
address is told of at its first failed attempt, then at most every REPEATED_AFTER_S.
"""

import logging
from typing import Final

from kohort.client.backoff import described
from kohort.client.config import Address
from kohort.client.net.connection import named

REPEATED_AFTER_S: Final = 10.0

log: Final = logging.getLogger("kohort.client.net")


class Outages:
    """The addresses of one client that cannot be reached now. Times are in seconds of any clock."""

    def __init__(self) -> None:
        self._told: dict[Address, float] = {}

    def failed(self, address: Address, error: Exception, now: float) -> None:
        """An attempt failed; `error` names the address."""
        told = self._told.get(address)
        if told is None or now - told >= REPEATED_AFTER_S:
            self._told[address] = now
            log.warning("broker unreachable, trying again: %s", described(error))

    def reached(self, address: Address) -> None:
        """An attempt succeeded."""
        if self._told.pop(address, None) is not None:
            log.warning("broker reached again: %s", named(address))
