"""Sockets that listen: on the addresses of a host, or on a path."""

import asyncio
import errno
import os
import pwd
import socket
import stat
import struct
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from kohort.security import LOCAL, KafkaPrincipal
from kohort.server.addresses import Address

Listen: TypeAlias = Callable[[Address], Awaitable[tuple[Address, list[socket.socket]]]]
"""The signature of `listen_on`."""

BACKLOG: Final = 1024
_CREDENTIALS: Final = struct.Struct("3i")
"""Format of SO_PEERCRED: process, user and group."""


async def listen_on(address: Address) -> tuple[Address, list[socket.socket]]:
    """Sockets on every address of the host, and the address bound. Raises OSError.

    Port 0 is a free port of the host's first address.
    """
    infos = await asyncio.get_running_loop().getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    addresses = list(dict.fromkeys((family, resolved) for family, _, _, _, resolved in infos))
    host = address.host
    if not address.port:
        del addresses[1:]
        host = str(addresses[0][1][0])
    sockets: list[socket.socket] = []
    try:
        for family, resolved in addresses:
            sockets.append(_listening(family, resolved))
    except OSError:
        close_all(sockets)
        raise
    return Address(host, sockets[0].getsockname()[1]), sockets


def _listening(family: int, address: object) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.setblocking(False)
        opened.bind(address)  # type: ignore[arg-type]
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def listen_on_path(path: str) -> socket.socket:
    """A Unix socket whose file only this user can open. Raises OSError.

    A file that a server left behind when it was killed is replaced.
    """
    if _is_stale(path):
        os.unlink(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)
    try:
        opened.setblocking(False)
        opened.bind(path)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    finally:
        os.umask(umask)
    return opened


def _is_stale(path: str) -> bool:
    """Whether there is a socket at `path` on which nobody listens. Raises OSError if it is used."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        try:
            tried.connect(path)
        except ConnectionRefusedError:
            return True
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def close_all(sockets: list[socket.socket]) -> None:
    """Close them, and remove the file of a Unix socket."""
    for listening in sockets:
        name = listening.getsockname() if listening.fileno() >= 0 else None
        listening.close()
        if isinstance(name, str) and name:
            try:
                os.unlink(name)
            except FileNotFoundError:
                pass


def local_principal(connected: socket.socket) -> KafkaPrincipal:
    """The user of the process at the other end of a Unix socket."""
    if not hasattr(socket, "SO_PEERCRED"):  # only the user of the server can open the file
        user = os.getuid()
    else:
        data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(data)
    try:
        return KafkaPrincipal(LOCAL, pwd.getpwuid(user).pw_name)
    except KeyError:
        return KafkaPrincipal(LOCAL, str(user))
