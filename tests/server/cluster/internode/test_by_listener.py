"""How a node connects to another one by its listener: TLS, SASL, and what is refused."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kohort.cluster import Endpoint
from kohort.errors import ConfigError
from kohort.protocol.apis import API_VERSIONS
from kohort.runtime.clock import SystemClock
from kohort.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from kohort.security.scram import ScramMechanism, credential_of, salted_password
from kohort.server.broker import Broker
from kohort.server.cluster.internode import ByListener, NodeConnection, NodeUnreachableError
from kohort.server.config import Config
from kohort.server.tls import Certificates
from kohort.types import Instant
from server.certificates import Authority

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")

OTHER = 7
"""The id of the other node."""
KIND = ScramMechanism.SHA_512


@pytest.fixture(
    params=[asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()],
    ids=["asyncio", "uvloop"],
    scope="module",
)
def event_loop_policy(request) -> asyncio.AbstractEventLoopPolicy:
    """Both loops: each has its own TLS."""
    return request.param


def plain(password: str = "s3cret") -> dict[str, str]:
    module = f"{PLAIN_LOGIN_MODULE} required username=nodes password={password} user_nodes=s3cret;"
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": module,
    }


def scram(password: str = "s3cret") -> dict[str, str]:
    module = f"{SCRAM_LOGIN_MODULE} required username=nodes password={password};"
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": KIND.mechanism,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": module,
    }


MUTUAL = {
    "listeners": "SSL://127.0.0.1:0",
    "security.inter.broker.protocol": "SSL",
    "ssl.client.auth": "required",
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def keys(authority: Authority) -> dict[str, str]:
    """The settings of a node's key store and trust store."""
    return {
        "ssl.keystore.location": str(authority.issue("node.pem", common_name="node")),
        "ssl.truststore.location": str(authority.file),
    }


class StandingClock(SystemClock):
    """No session expires by it."""

    def now(self) -> Instant:
        return Instant(0)


Serve = Callable[[Mapping[str, str]], Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts the other node, whose SCRAM user is "nodes"."""
    async with AsyncExitStack() as stack:

        async def serve(settings: Mapping[str, str]) -> Broker:
            own = {"storage": "memory", "connection.failed.authentication.delay.ms": "0"}
            broker = Broker(Config({**settings, **own}), clock=StandingClock())
            await stack.enter_async_context(broker)
            credential = credential_of(
                KIND, salted_password(KIND, "s3cret", b"s", 4096), b"s", 4096
            )
            broker.controller.writer.commit(
                *broker.controller.scram.alter_credentials({("nodes", KIND): credential})
            )
            return broker

        yield serve


class Node:
    """The node that connects."""

    def __init__(self, settings: Mapping[str, str], other: Broker) -> None:
        self.config = Config({**settings, "storage": "postgresql://nowhere/none"})
        self.certificates = Certificates(self.config)
        inter_broker = self.config.inter_broker
        assert inter_broker is not None
        if inter_broker.listener.security_protocol.has_tls:
            self.certificates.open(inter_broker.listener)
        self._listener = inter_broker.listener.name
        self._other = other
        self.by_listener = ByListener(inter_broker, self.certificates, self._endpoint)

    def _endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        if (node_id, listener) != (OTHER, self._listener):
            return None
        return Endpoint(listener, *self._other.address)

    def connection(self) -> NodeConnection:
        return NodeConnection(self.by_listener.connect(OTHER))

    async def ask(self) -> None:
        connection = self.connection()
        try:
            await ask(connection)
        finally:
            connection.close()


async def ask(connection: NodeConnection) -> None:
    response = await connection.ask(API_VERSIONS, 0)
    assert not response.error_code


@pytest.mark.parametrize("settings", [plain(), scram(), MUTUAL], ids=["plain", "scram", "mutual"])
async def test_nodes_with_the_same_settings_connect(
    settings: dict[str, str], keys: dict[str, str], serve: Serve
) -> None:
    other = await serve(settings | keys)
    node = Node(settings | keys, other)
    await node.ask()
    assert other.listener.statistics().accepted == 1


async def test_a_node_whose_place_is_not_known_is_unreachable(
    keys: dict[str, str], serve: Serve
) -> None:
    node = Node(plain() | keys, await serve(plain() | keys))
    connection = NodeConnection(node.by_listener.connect(OTHER + 1))
    with pytest.raises(NodeUnreachableError, match="node 8 has no listener SASL_SSL"):
        await ask(connection)


@pytest.mark.parametrize("of", [plain, scram], ids=["plain", "scram"])
async def test_a_wrong_password_is_told_once_and_not_tried_again_at_once(
    of: Callable[..., dict[str, str]],
    keys: dict[str, str],
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = await serve(of() | keys)
    node = Node(of("other") | keys, other)
    for _ in range(3):
        with pytest.raises(NodeUnreachableError, match="it refuses user nodes by"):
            await node.ask()
    assert other.listener.statistics().logins_failed == 1
    (line,) = (each for each in caplog.records if each.levelno == logging.ERROR)
    assert line.getMessage() == "cannot connect to another node"
    assert "other" not in caplog.text.replace("another", "")


async def test_a_mechanism_that_is_not_offered_is_told(keys: dict[str, str], serve: Serve) -> None:
    other = await serve(plain() | keys)
    with pytest.raises(NodeUnreachableError, match="does not offer SCRAM-SHA-512, only PLAIN"):
        await Node(scram() | keys, other).ask()


async def test_the_other_node_has_to_show_a_certificate_of_the_authority(
    tmp_path: Path, keys: dict[str, str], serve: Serve
) -> None:
    foreign = {"ssl.keystore.location": str(Authority(tmp_path).issue("foreign.pem"))}
    other = await serve(scram() | keys | foreign)
    with pytest.raises(NodeUnreachableError, match="its certificate is not accepted"):
        await Node(scram() | keys, other).ask()


async def test_the_certificate_names_the_host_unless_the_algorithm_is_empty(
    authority: Authority, keys: dict[str, str], serve: Serve
) -> None:
    named = {"ssl.keystore.location": str(authority.issue("other.pem", "other.example"))}
    other = await serve(scram() | keys | named)
    with pytest.raises(NodeUnreachableError, match="IP address mismatch"):
        await Node(scram() | keys, other).ask()
    unchecked = {"listener.name.sasl_ssl.ssl.endpoint.identification.algorithm": ""}
    await Node(scram() | keys | unchecked, other).ask()


async def test_a_node_without_an_accepted_certificate_is_told_so(
    tmp_path: Path, authority: Authority, keys: dict[str, str], serve: Serve
) -> None:
    own = Authority(tmp_path)
    foreign = {
        "ssl.keystore.location": str(own.issue("foreign.pem")),
        "ssl.truststore.location": str(own.file),
    }
    other = await serve(MUTUAL | keys)
    own.file.write_text(own.file.read_text() + authority.file.read_text())
    with pytest.raises(NodeUnreachableError, match=r"TLS failed: .*UNKNOWN_CA"):
        await Node(MUTUAL | foreign, other).ask()


async def test_an_expired_certificate_is_replaced_without_a_restart(
    authority: Authority, keys: dict[str, str], serve: Serve
) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    path = authority.issue("other.pem", expires=yesterday)
    other = await serve(scram() | keys | {"ssl.keystore.location": str(path)})
    with pytest.raises(NodeUnreachableError, match="certificate has expired"):
        await Node(scram() | keys, other).ask()
    authority.issue("other.pem")
    other.reload_files()
    await other.certificates.reloaded()
    await Node(scram() | keys, other).ask()


async def test_a_node_connects_with_the_certificate_that_it_has_now(
    authority: Authority, keys: dict[str, str], serve: Serve
) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    other = await serve(MUTUAL | keys)
    path = authority.issue("own.pem")
    node = Node(MUTUAL | keys | {"ssl.keystore.location": str(path)}, other)
    before = node.certificates.of_nodes("SSL")
    authority.issue("own.pem", expires=yesterday)
    node.certificates.reload()
    await node.certificates.reloaded()
    assert node.certificates.of_nodes("SSL") is before
    authority.issue("own.pem")
    node.certificates.reload()
    await node.certificates.reloaded()
    assert node.certificates.of_nodes("SSL") is not before
    await node.ask()


async def test_each_session_is_followed_by_another(keys: dict[str, str], serve: Serve) -> None:
    reauth = {"listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms": "1"}
    other = await serve(scram() | keys | reauth)
    connection = Node(scram() | keys, other).connection()
    for _ in range(3):
        await ask(connection)
        await asyncio.sleep(0.002)
    assert other.listener.statistics().logins == 3
    connection.close()


@pytest.mark.parametrize("settings", [scram(), MUTUAL], ids=["scram", "mutual"])
def test_a_node_refuses_a_key_store_that_others_would_refuse(
    settings: dict[str, str], tmp_path: Path, keys: dict[str, str]
) -> None:
    foreign = {"ssl.keystore.location": str(Authority(tmp_path).issue("foreign.pem"))}
    config = Config({**settings, **keys, **foreign, "storage": "postgresql://h/d"})
    with pytest.raises(ConfigError, match=r"would refuse this key store: .*ssl\.truststore"):
        Certificates(config).open(config.listeners[0])
