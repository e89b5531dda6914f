"""Hosts of ACL entries: `*`, an address, or a network in CIDR notation.

Rules are looked up by the text of their host. A client is therefore looked up by several texts:
its address, `*`, and each network of an entry that contains it, as `10.0.0.0/8`. Since Kafka 4.4.

*Cost.* An address is compared with the networks of all entries once. The result is cached for
`MAX_CACHED` addresses, until a network is added or removed.
"""

import re
from collections import Counter
from ipaddress import IPv4Network, IPv6Interface, IPv6Network, ip_address, ip_interface
from typing import Final

WILDCARD: Final = "*"
"""Name of all resources of a type, and every host."""
MAX_CACHED: Final = 4_096
_PREFIX_LENGTH: Final = re.compile(r"/[0-9]{1,3}\Z")


def parse_network(host: str) -> IPv4Network | IPv6Network | None:
    """The network of an entry's host; None for an address, `*` and other text without a slash.

    The address may be any of the network. Raises ValueError for text with a slash that is no
    network.
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
    """The hosts of all rules, changed only by `add` and `remove`."""

    def __init__(self) -> None:
        self._networks: dict[str, IPv4Network | IPv6Network] = {}
        """By the text that entries have."""
        self._rules: Counter[str] = Counter()
        """Number of rules of each network."""
        self._cached: dict[str, tuple[str, ...]] = {}

    def add(self, host: str) -> None:
        """Add the host of a new rule."""
        network = _network(host)
        if network is not None:
            self._rules[host] += 1
            if host not in self._networks:
                self._networks[host] = network
                self._cached.clear()

    def remove(self, host: str) -> None:
        """Remove the host of a rule that was removed."""
        if host in self._networks:
            self._rules[host] -= 1
            if not self._rules[host]:
                del self._rules[host], self._networks[host]
                self._cached.clear()

    def of(self, address: str) -> tuple[str, ...]:
        """Texts of the hosts that match a client with this address, or other text in its place."""
        hosts = self._cached.get(address)
        if hosts is None:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            hosts = self._cached[address] = (address, WILDCARD, *self._of_networks(address))
        return hosts

    def _of_networks(self, address: str) -> list[str]:
        try:
            parsed = ip_address(address)
        except ValueError:
            return []
        return [text for text, network in self._networks.items() if parsed in network]


def _network(host: str) -> IPv4Network | IPv6Network | None:
    """As `parse_network`, and None for an invalid network, which an earlier version accepted."""
    try:
        return parse_network(host)
    except ValueError:
        return None
