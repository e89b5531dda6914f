"""Checks, before a query begins, that a program listens at the bootstrap servers.

A running query waits for its brokers to come back. A new query would wait as long for a wrong port
or a server that was not started, so its planning fails instead.
"""

import socket
import time
from typing import Final

from kohort.client.config import UNIX, Address
from kohort.errors import KohortError

REFUSED_S: Final = 3.0
"""How long connections to refusing addresses are retried."""
_CONNECT_S: Final = 1.0
_PAUSE_S: Final = 0.2


class ConnectionsRefusedError(KohortError):
    """No program listens at the bootstrap servers."""

    def __init__(self, refusal: str) -> None:
        super().__init__(f"no broker listens at kafka.bootstrap.servers: {refusal}")


def validate_listening(servers: tuple[Address, ...]) -> None:
    """Raise ConnectionsRefusedError if all addresses refuse connections for REFUSED_S.

    An address that does not respond or resolve here is no error: executors may reach it.
    """
    give_up_at = time.monotonic() + REFUSED_S
    while all(_refuses(address) for address in servers):
        if time.monotonic() >= give_up_at:
            names = ", ".join(f"{host}:{port}" for host, port in servers)
            raise ConnectionsRefusedError(f"connections to {names} are refused")
        time.sleep(_PAUSE_S)


def _refuses(address: Address) -> bool:
    if address[0].startswith(UNIX):
        return False
    try:
        socket.create_connection(address, _CONNECT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False
