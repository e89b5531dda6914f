"""The cluster of a command: an error at once if no server listens, near names for unknown ones."""

import argparse
import ipaddress
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from kohort.cli.near_names import near_names
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import UNIX, Address, ClientConfig
from kohort.client.errors import BrokerUnreachableError
from kohort.client.net import Connection, Connections, Key, Outages, format_address
from kohort.errors import KafkaError, KohortError


@asynccontextmanager
async def opened_cluster(
    options: argparse.Namespace, config: ClientConfig
) -> AsyncIterator[Cluster]:
    """Open the cluster. Without --timeout, refused connections to this machine are an error.

    Errors of unknown names in `options` get the nearest names. Raises KohortError.
    """
    fails_fast = options.timeout is None and all(is_local(host) for host, _ in config.servers)
    connections = _FailFastConnections(config) if fails_fast else None
    async with Cluster(config, connections=connections) as cluster:
        try:
            yield cluster
        except KafkaError as error:
            hint = await near_names(Admin(cluster), error.code, options)
            if not hint:
                raise
            raise KohortError(f"{str(error).removesuffix('.')}{hint}") from error


class _LaterOutages(Outages):
    """Does not log refusals before the first connection, because the command reports them."""

    def __init__(self) -> None:
        super().__init__()
        self._has_connected = False

    def failed(self, address: Address, error: Exception, now: float) -> None:
        if self._has_connected or not getattr(error, "is_refused", False):
            super().failed(address, error, now)

    def reached(self, address: Address) -> None:
        self._has_connected = True
        super().reached(address)


class _FailFastConnections(Connections):
    """Connections to servers of this machine. Fails at once if no program listens."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config, outages=_LaterOutages())
        self._servers = ", ".join(map(format_address, config.servers))
        self._has_connected = False

    async def first_of(self, candidates: Iterable[tuple[Key, Address]]) -> Connection:
        """As `Connections.first_of`. Raises KohortError if all refuse, and none ever accepted."""
        try:
            connection = await super().first_of(candidates)
        except BrokerUnreachableError as error:
            if self._has_connected or not error.is_refused:
                raise
            raise KohortError(
                f"no server listens at {self._servers}: start one by `kohort serve`, name another "
                "by -b or KOHORT_BOOTSTRAP, or wait for it by --timeout MS"
            ) from error
        self._has_connected = True
        return connection


def is_local(host: str) -> bool:
    """Whether the host is this machine."""
    if host == "localhost" or host.startswith(UNIX):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
