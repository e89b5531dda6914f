"""Opens a connection to a host name with several addresses (RFC 8305, Happy Eyeballs).

Addresses are tried in the resolver's order, IPv6 and IPv4 in alternation. The next one is tried
when the one before failed, or has not completed TCP, TLS and authentication within
NEXT_ADDRESS_INTERVAL_S. So a silent address delays no other, whether it drops packets or accepts
connections and sends no bytes. The address that was opened last is tried first the next time, and
last if its broker sent no response in time or had no brokers in its metadata. TLS verifies the
name, not the address.

uvloop has no `happy_eyeballs_delay`, and asyncio's ends with the TCP connection.
"""

import asyncio
import ipaddress
import socket
from collections.abc import MutableMapping, Sequence
from itertools import chain, zip_longest
from typing import Final

from kohort.client.config import UNIX, Address, ClientConfig
from kohort.client.errors import BrokerUnreachableError, RebootstrapRequiredError
from kohort.client.net.connect_errors import format_address, raises_unreachable
from kohort.client.net.connection import Connection
from kohort.client.net.counters import NetCounters
from kohort.client.net.handshake import ExpectedNode
from kohort.errors import fresh

NEXT_ADDRESS_INTERVAL_S: Final = 1.0
"""Time after which the next address is tried beside one that has not completed.

Longer than RFC 8305's 250 ms, which is for TCP alone: a broker that is slow at TLS or SASL should
not have to do it twice.
"""

OpenedLast = MutableMapping[Address, str]
"""The last opened IP address of each host and port."""


async def open_connection(
    address: Address,
    config: ClientConfig,
    counters: NetCounters,
    opened_last: OpenedLast,
    avoided: str | None = None,
    expected: ExpectedNode | None = None,
) -> Connection:
    """The first connection to any IP address of the host that completes.

    `avoided`: the IP address to try last, as its broker proved useless. `expected` is sent to the
    broker, which refuses the connection if it is another node.

    Raises as `Connection.open`: BrokerUnreachableError when all have failed, other errors at once.
    """
    hosts = await _resolved(address, config)
    if len(hosts) == 1:
        return await Connection.open(address, config, counters, hosts[0], expected)
    hosts.sort(key=lambda host: (host == avoided, host != opened_last.get(address)))
    attempts: dict[asyncio.Task[Connection], str] = {}
    failures: dict[str, BrokerUnreachableError] = {}
    winner: Connection | None = None
    try:
        while winner is None and len(failures) < len(hosts):
            if len(attempts) < len(hosts):
                host = hosts[len(attempts)]
                attempt = Connection.open(address, config, counters, host, expected)
                attempts[asyncio.get_running_loop().create_task(attempt)] = host
            running = [task for task, host in attempts.items() if host not in failures]
            limit_s = NEXT_ADDRESS_INTERVAL_S if len(attempts) < len(hosts) else None
            done, _ = await asyncio.wait(
                running, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                try:
                    winner = task.result()
                except BrokerUnreachableError as error:
                    failures[attempts[task]] = error.with_traceback(
                        None
                    )  # which refers to this frame
                else:
                    opened_last[address] = attempts[task]
                    return winner
        raise fresh(_all_failed(address, failures))
    finally:
        await _end(list(attempts), winner)


async def _end(attempts: Sequence[asyncio.Task[Connection]], winner: Connection | None) -> None:
    def discard(task: asyncio.Task[Connection]) -> None:
        if not task.cancelled() and task.exception() is None and task.result() is not winner:
            task.result().fail(BrokerUnreachableError("another address was faster"))

    for attempt in attempts:
        attempt.cancel()
        attempt.add_done_callback(discard)
    if running := [attempt for attempt in attempts if not attempt.done()]:
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            if winner is not None:
                winner.fail(
                    BrokerUnreachableError("the caller that opened the connection was cancelled")
                )
            raise


async def _resolved(address: Address, config: ClientConfig) -> list[str]:
    """The host's IP addresses. Raises BrokerUnreachableError."""
    host, port = address
    if host.startswith(UNIX) or _is_ip_address(host):
        return [host]
    limit_s = config.socket_connection_setup_timeout_ms / 1000
    try:
        with raises_unreachable(address, config.security):
            async with asyncio.timeout(limit_s):
                resolved = await asyncio.get_running_loop().getaddrinfo(
                    host, port, type=socket.SOCK_STREAM
                )
    except TimeoutError:
        raise BrokerUnreachableError(
            f"{format_address(address)}: the name was not resolved within {limit_s:g} s"
        ) from None
    by_family: dict[int, list[str]] = {}
    for family, _, _, _, sockaddr in resolved:
        by_family.setdefault(family, []).append(str(sockaddr[0]))
    alternating = chain.from_iterable(zip_longest(*by_family.values()))
    return list(dict.fromkeys(host for host in alternating if host is not None))


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _all_failed(
    address: Address, failures: dict[str, BrokerUnreachableError]
) -> BrokerUnreachableError:
    texts = {str(error) for error in failures.values()}
    if len(texts) == 1:
        return next(iter(failures.values()))
    for failure in failures.values():
        if isinstance(failure, RebootstrapRequiredError):
            return failure
    attempts = "; ".join(f"{host}: {error}" for host, error in failures.items())
    unreachable = BrokerUnreachableError(
        f"{format_address(address)}, all addresses of the name: {attempts}"
    )
    unreachable.is_refused = all(failure.is_refused for failure in failures.values())
    return unreachable
