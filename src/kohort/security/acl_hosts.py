"""Hosts of ACL entries: every host, one by its address, or those of a network in CIDR notation.

The rules of entries are found by the text of their host. A client therefore has several: its
address, `*`, and each network that it is in, as `10.0.0.0/8`. Since Kafka 4.4.

*Cost.* An address is compared with the networks of all entries once. What it is in is remembered
for `MAX_REMEMBERED` addresses, until entries of another network come or go.
"""

import re
from collections import Counter
from ipaddress import IPv4Network, IPv6Interface, IPv6Network, ip_address, ip_interface
from typing import Final

WILDCARD: Final = "*"
"""Name of all resources of a type, and every host."""
MAX_REMEMBERED: Final = 4_096
_PREFIX_LENGTH: Final = re.compile(r"/[0-9]{1,3}\Z")


def parse_network(host: str) -> IPv4Network | IPv6Network | None:
    """The network that the host of an entry is; None for an address, `*` and other words.

    The address may be any of the network. Raises ValueError if it has a slash and is no network.
    """
    if "/" not in host:
        return None
    if not _PREFIX_LENGTH.search(host) or "%" in host:
        raise ValueError(f"{host} is not an address and a prefix length")
    interface = ip_interface(host)
    if isinstance(interface, IPv6Interface) and interface.ip.ipv4_mapped:
        raise ValueError(f"{host} is no network of IPv6")
    return interface.network


class AclHosts:
    """The hosts of the rules. `add` and `remove` are all that changes them."""

    def __init__(self) -> None:
        self._networks: dict[str, IPv4Network | IPv6Network] = {}
        """By the text that entries have."""
        self._rules: Counter[str] = Counter()
        """Number of rules of each network."""
        self._remembered: dict[str, tuple[str, ...]] = {}

    def add(self, host: str) -> None:
        """Count the host of a new rule."""
        network = _known_network(host)
        if network is not None:
            self._rules[host] += 1
            if host not in self._networks:
                self._networks[host] = network
                self._remembered.clear()

    def remove(self, host: str) -> None:
        """Count the host of a rule once less."""
        if host in self._networks:
            self._rules[host] -= 1
            if not self._rules[host]:
                del self._rules[host], self._networks[host]
                self._remembered.clear()

    def of(self, address: str) -> tuple[str, ...]:
        """The hosts by which entries mean a client with this address, or with another word."""
        hosts = self._remembered.get(address)
        if hosts is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            hosts = self._remembered[address] = (address, WILDCARD, *self._of_networks(address))
        return hosts

    def _of_networks(self, address: str) -> list[str]:
        try:
            parsed = ip_address(address)
        except ValueError:
            return []
        return [text for text, network in self._networks.items() if parsed in network]


def _known_network(host: str) -> IPv4Network | IPv6Network | None:
    """The network, None as well for an entry of an earlier version, whose host is none."""
    try:
        return parse_network(host)
    except ValueError:
        return None
