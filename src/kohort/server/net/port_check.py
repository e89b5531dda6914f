"""Whether a server can listen where it is to; asked before it makes anything."""

from kohort.errors import KohortError
from kohort.server.addresses import Address, cannot_listen
from kohort.server.config import Config
from kohort.server.net.sockets import Listen, close_all, listen_on


async def ensure_can_listen(
    config: Config, workers: int = 1, *, listen: Listen = listen_on
) -> None:
    """Raise KohortError if an address of so many workers, or that for HTTP, is in use.

    Another process may take one afterwards.
    """
    for listener in config.listeners:
        host, port = listener.address
        for number in range(port, port + workers) if port else (port,):
            await _try(listen, Address(host, number), "--listen")
    if config.http_listen is not None:
        await _try(listen_on, config.http_listen, "--http")


async def _try(listen: Listen, address: Address, flag: str) -> None:
    try:
        _, sockets = await listen(address)
    except OSError as error:
        raise KohortError(cannot_listen(address, error, flag)) from error
    close_all(sockets)
