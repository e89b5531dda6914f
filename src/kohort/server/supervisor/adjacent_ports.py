"""Free ports that follow one another."""

import random
import socket
from typing import Final

from kohort.errors import KohortError
from kohort.server.addresses import Address

_RANGE: Final = (16_384, 32_000)
"""Below the ports that Linux gives to outgoing connections: one of those would take a neighbour."""
_TRIES: Final = 200


def free_neighbours(host: str, count: int) -> int:
    """The first of so many free ports. Raises KohortError if there are none, or no such host."""
    for _ in range(_TRIES):
        first = random.randrange(*_RANGE)  # nothing depends on it  # nosec B311
        if all(_is_free(host, first + offset) for offset in range(count)):
            return first
    raise KohortError(
        f"{Address(host, 0)}: no {count} free ports were found that follow one another; name the "
        "first one with --listen"
    )


def _is_free(host: str, port: int) -> bool:
    try:
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise KohortError(f"{host}: {error.strerror or error}") from error
    family, _, _, _, address = addresses[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
    return True
