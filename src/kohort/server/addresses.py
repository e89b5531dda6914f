"""Addresses as people write them: `HOST:PORT`, `:PORT`, `[::1]:9092`, or Kafka's
`PLAINTEXT://HOST:PORT`.
"""

from typing import NamedTuple

_ANY = frozenset({"", "0.0.0.0", "::"})


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_any(self) -> bool:
        """True if it stands for every interface, an address that no client can connect to."""
        return self.host in _ANY


def parse_address(text: str) -> Address:
    """The address in `text`. Raises ValueError, whose text completes "NAME: "."""
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme.upper() != "PLAINTEXT":
        raise ValueError(f"{text!r}: only PLAINTEXT listeners are served, not {scheme}")
    host, colon, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, [::1]:9092")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, with a port from 0 to 65535")
    return Address(host, int(port))


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`. Names are resolved; one that cannot be is not
    loopback.
    """
    import ipaddress
    import socket

    if host in _ANY:
        return False
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in found)
