"""Addresses as users write them: `HOST:PORT`, `:PORT`, `[::1]:9092`, `NAME://HOST:PORT`."""

import errno
import re
from typing import Final, NamedTuple

_ANY = frozenset({"", "0.0.0.0", "::"})  # compared with, not listened on  # nosec B104
_LISTENER_NAME = re.compile(r"[A-Za-z0-9_-]+")
MAX_PORT: Final = 65_535
_HOST = re.compile(r"[^\s\x00,/\[\]]*")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_any(self) -> bool:
        """Whether it stands for every interface; no client can connect to such an address."""
        return self.host in _ANY


def parse_address(text: str) -> Address:
    """The address in `text`. Raises ValueError, whose text completes "NAME: "."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, [::1]:9092")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > MAX_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT, with a port from 0 to 65535")
    if not _HOST.fullmatch(host) or not _has_idna(host):
        raise ValueError(f"{text!r}: {host!r} is no name of a host")
    return Address(host, int(port))


def _has_idna(host: str) -> bool:
    """Whether the system can be asked for the host: a part of the name may be too long."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def parse_listener(text: str) -> tuple[str | None, Address]:
    """The name, in upper case, and the address in `NAME://HOST:PORT`; None: it has no name.

    Raises ValueError, whose text completes "NAME: ".
    """
    name, separator, address = text.strip().rpartition("://")
    if separator and not _LISTENER_NAME.fullmatch(name):
        raise ValueError(f"{text!r}: the name of a listener has letters, digits, _ and -")
    return name.upper() or None, parse_address(address)


def parse_http(text: str) -> tuple[bool, Address]:
    """Whether it is HTTPS, and the address in `HOST:PORT` or `https://HOST:PORT`.

    Raises ValueError, whose text completes "NAME: ".
    """
    scheme, separator, address = text.strip().rpartition("://")
    if separator and scheme.lower() not in ("http", "https"):
        raise ValueError(f"{text!r}: the scheme is http or https")
    return scheme.lower() == "https", parse_address(address)


def local_socket_of(path: str, worker: int) -> str:
    """The `local.socket` of a worker: that of worker 0 is `path` itself."""
    return f"{path}.{worker}" if worker else path


def java_host(host: str) -> str:
    """An IP address as Java prints it: "127.0.0.1", "0:0:0:0:0:0:0:1"; else `host` itself."""
    if ":" not in host:
        return host
    import ipaddress

    groups = ipaddress.IPv6Address(host.partition("%")[0]).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups)


def is_named_loopback(host: str) -> bool:
    """Whether `host` is a loopback address or name, without resolving it."""
    import ipaddress

    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower().rstrip(".").rpartition(".")[2] == "localhost"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; False for a name that cannot be resolved."""
    import ipaddress
    import socket

    if host in _ANY:
        return False
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses)


def cannot_listen(address: Address, error: OSError, flag: str) -> str:
    """Why `address` cannot be listened on, and what the user of `flag` can do."""
    if error.errno == errno.EADDRINUSE:
        free = Address(address.host, 0)
        return (
            f"{address} is in use by another process; choose another address with {flag}, or "
            f"{free} for a free port"
        )
    if error.errno == errno.EACCES:
        return (
            f"{address} cannot be listened on: permission denied; ports below 1024 are often "
            "reserved for root"
        )
    return (
        f"{address} cannot be listened on: {error.strerror or error}; choose another address "
        f"with {flag}"
    )
