"""Names with several addresses, of which some are silent, refuse, or fall silent later."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from client.fake_cluster import HANG, FakeBroker, FakeCluster
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.errors import AuthenticationError, BrokerUnreachableError
from kohort.client.net import happy_eyeballs
from kohort.client.net.connections import Connections
from kohort.client.security import Security

NAME = "broker.test"
GOOD, OTHER, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"
Resolve = Callable[..., None]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(happy_eyeballs, "NEXT_ADDRESS_INTERVAL_S", 0.05)


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Has NAME resolved to these addresses."""
    real = socket.getaddrinfo
    found: list[str] = []

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != NAME:
            return real(host, port, *args, **options)
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(family[":" in each], socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    def resolve(*addresses: str) -> None:
        found[:] = addresses

    return resolve


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeCluster() as cluster:
        yield cluster.brokers[0]


@contextmanager
def silent(address: str, port: int, *, accepts: bool) -> Iterator[None]:
    """A port that takes connections and sends nothing, or (Linux) drops what asks for one."""
    with ExitStack() as opened:
        listening = opened.enter_context(socket.socket())
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(100 if accepts else 0)
        for _ in range(0 if accepts else 4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect((address, port))
        yield


def config(port: int, **options: Any) -> ClientConfig:
    return ClientConfig(
        bootstrap=f"{NAME}:{port}", socket_connection_setup_timeout_ms=60_000, **options
    )


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_silent_address_does_not_delay_the_next(
    broker: FakeBroker, resolve: Resolve, accepts: bool
) -> None:
    resolve(OTHER, THIRD, GOOD)
    with silent(OTHER, broker.port, accepts=accepts), silent(THIRD, broker.port, accepts=accepts):
        async with Cluster(config(broker.port)) as cluster, asyncio.timeout(60):
            assert (await cluster.metadata([])).brokers
    assert broker.connections == 1


async def test_a_connection_goes_to_the_address_that_was_opened_last(
    broker: FakeBroker, resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(OTHER, GOOD)
    connections = Connections(config(broker.port))
    address = (NAME, broker.port)
    with silent(OTHER, broker.port, accepts=True):
        first = await connections.get((NAME, "first"), address)
        monkeypatch.setattr(happy_eyeballs, "NEXT_ADDRESS_INTERVAL_S", 3_600)
        second = await connections.get((NAME, "second"), address)
        assert (first.address, second.address) == (address, address)
    await connections.close()


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_broker_that_moves_to_another_address_is_reached(
    resolve: Resolve, accepts: bool
) -> None:
    """The address that was used until now falls silent, as when its host dies."""
    resolve(GOOD, OTHER)
    async with FakeCluster() as before:
        port = before.brokers[0].port
        connections = Connections(config(port, retry_backoff_ms=0))
        opened = await connections.get((NAME, "a"), (NAME, port))
        await before.brokers[0].stop()
        with silent(GOOD, port, accepts=accepts):
            server = await asyncio.start_server(before.brokers[0]._serve, OTHER, port)
            async with server, asyncio.timeout(60):
                while not opened.closed:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0)
                assert await connections.get((NAME, "a"), (NAME, port)) is not opened
                await connections.close()
                before.brokers[0].hang_up()


@pytest.mark.parametrize("answer", [HANG, {"brokers": []}])
async def test_another_address_is_tried_after_a_useless_broker(
    resolve: Resolve, broker: FakeBroker, answer: Any
) -> None:
    resolve(GOOD, OTHER)
    async with FakeCluster() as useless:
        useless.on("metadata", lambda _request: answer)
        port = useless.brokers[0].port
        server = await asyncio.start_server(broker._serve, OTHER, port)
        options = {"request_timeout_ms": 200, "retry_backoff_ms": 0}
        async with server, Cluster(config(port, **options)) as cluster, asyncio.timeout(60):
            assert (await cluster.metadata([])).brokers
            assert broker.connections == 1
            broker.hang_up()


async def test_all_addresses_are_named_when_none_can_be_reached(resolve: Resolve) -> None:
    with socket.socket() as unused:
        unused.bind((GOOD, 0))
        port = unused.getsockname()[1]
        connections = Connections(
            ClientConfig(bootstrap=f"{NAME}:{port}", socket_connection_setup_timeout_ms=200)
        )
        resolve(GOOD, OTHER)
        with (
            silent(OTHER, port, accepts=True),
            pytest.raises(BrokerUnreachableError, match=f"{GOOD}: .*refused; {OTHER}: .* 0.2 s"),
        ):
            await connections.get((NAME, "a"), (NAME, port))
        resolve(GOOD, THIRD)
        with pytest.raises(BrokerUnreachableError, match=rf"^{NAME}:{port}: Connection refused$"):
            await connections.get((NAME, "b"), (NAME, port))
        await connections.close()


async def test_a_close_during_the_attempts_leaves_no_connection_open(
    broker: FakeBroker, resolve: Resolve
) -> None:
    resolve(OTHER, GOOD)
    connections = Connections(config(broker.port))
    with silent(OTHER, broker.port, accepts=True):
        for turns in range(0, 60, 3):
            opening = asyncio.ensure_future(
                connections.get((NAME, str(turns)), (NAME, broker.port))
            )
            await asyncio.sleep(0.045 if turns % 2 else 0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await connections.release(str(turns))
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        await connections.close()
        async with asyncio.timeout(60):
            while broker._writers:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("certified", [NAME, GOOD])
async def test_tls_verifies_the_name_and_not_the_address(
    resolve: Resolve, tmp_path: Path, certified: str
) -> None:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(certified, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    fake = FakeCluster()
    fake.brokers[0].ssl = context
    resolve(OTHER, GOOD)
    async with fake:
        port = fake.brokers[0].port
        security = Security(protocol="SSL", ssl_cafile=str(tmp_path / "ca.pem"))
        connections = Connections(config(port, security=security))
        with silent(OTHER, port, accepts=True):
            if certified == NAME:
                await connections.get((NAME, "a"), (NAME, port))
            else:
                with pytest.raises(AuthenticationError, match="Hostname mismatch"):
                    await connections.get((NAME, "a"), (NAME, port))
        assert names == [NAME]
        await connections.close()


async def test_address_families_alternate_and_literals_are_not_resolved(
    resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve("::1", "::2", "127.0.0.1", "::1", "127.0.0.2", "127.0.0.3")
    found = await happy_eyeballs._resolved((NAME, 1), ClientConfig())
    assert found == ["::1", "127.0.0.1", "::2", "127.0.0.2", "127.0.0.3"]
    monkeypatch.setattr(socket, "getaddrinfo", None)
    for host in ("127.0.0.1", "::1", "fe80::1%eth0", "unix:/run/kohort.sock"):
        assert await happy_eyeballs._resolved((host, 1), ClientConfig()) == [host]
