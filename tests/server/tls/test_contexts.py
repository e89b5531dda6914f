"""Listeners with TLS: contexts from PEM, principals, reloading, and what is refused."""

import asyncio
import contextlib
import gc
import hmac
import logging
import os
import re
import shutil
import socket
import ssl
import struct
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cycles import errors_in, frames_in, uncollected
from kohort.errors import ConfigError, ErrorCode, KohortError
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import encode, request
from kohort.security import ANONYMOUS, KafkaPrincipal
from kohort.server.addresses import Address
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.server.net import Connection
from kohort.server.tls.contexts import MAX_FILE_BYTES
from server.certificates import Authority
from server.net.bench import Peer
from waiting import until

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")


@pytest.fixture(
    params=[asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()],
    ids=["asyncio", "uvloop"],
    scope="module",
)
def event_loop_policy(request) -> asyncio.AbstractEventLoopPolicy:
    """Both loops: each has its own TLS."""
    return request.param


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


Start = Callable[..., Any]
KEY_UPDATE = b"\x18\0\0\1\1" + b"\x16"
"""A request for new keys, as a record of TLS 1.3 has it before it is encrypted."""
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.fixture
def start(tmp_path: Path, authority: Authority) -> Start:
    """Starts a server with a TLS listener, and with further settings."""
    key = authority.issue("server.pem", common_name="kohort")

    def start(**settings: object) -> Any:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        return serving(
            {
                "listeners": "SSL://127.0.0.1:0",
                "storage": "memory",
                "ssl.keystore.location": str(key),
                **given,
            }
        )

    return start


@asynccontextmanager
async def serving(settings: dict[str, object]) -> AsyncIterator[Broker]:
    async with Broker(Config(settings)) as broker:
        yield broker


@asynccontextmanager
async def connected(broker: Broker, context: ssl.SSLContext | None) -> AsyncIterator[Peer]:
    host, port = broker.address
    name = None if context is None else "localhost"
    peer = Peer(*await asyncio.open_connection(host, port, ssl=context, server_hostname=name))
    try:
        yield peer
    finally:
        peer.leave()


async def principal_of(broker: Broker, context: ssl.SSLContext) -> KafkaPrincipal:
    """Who a client is to the server."""
    seen: list[KafkaPrincipal] = []

    def look(_services: Any, exchange: Any, _request: Any) -> None:
        seen.append(exchange.peer.principal)
        exchange.respond_encoded(bytes(6))

    broker.dispatcher.register(BY_NAME["end_txn"].key, look)
    async with connected(broker, context) as peer:
        await peer.ask("end_txn", 0, **END)
    return seen[0]


async def cluster_of(peer: Peer) -> str:
    """The cluster's id, which any served client gets."""
    return str((await peer.ask("describe_cluster", 0)).cluster_id)


async def test_a_client_is_served_over_tls_1_2_and_1_3(start: Start, authority: Authority) -> None:
    async with start() as broker:
        for version in VERSIONS:
            context = authority.client()
            context.maximum_version = context.minimum_version = version
            async with connected(broker, context) as peer:
                assert await cluster_of(peer) == broker.cluster_id
                assert peer.writer.get_extra_info("compression") is None
        answer_host, answer_port = broker.advertised
        assert (answer_host, answer_port) == broker.address


@pytest.mark.parametrize(
    ("common_name", "rules", "name"),
    [
        ("alice", "DEFAULT", f"CN=alice,OU=testing,O=trustme v{trustme.__version__}"),
        ("alice", "RULE:nobody/x/,RULE:^CN=([^,]*),.*$/$1@kohort/U", "ALICE@KOHORT"),
    ],
)
async def test_the_certificate_names_the_principal(
    start: Start, authority: Authority, common_name: str, rules: str, name: str
) -> None:
    certificate = authority.issue("alice.pem", "alice.test", common_name=common_name)
    async with start(
        ssl_client_auth="required",
        ssl_truststore_location=str(authority.file),
        ssl_principal_mapping_rules=rules,
    ) as broker:
        principal = await principal_of(broker, authority.client(certificate))
    assert principal == ("User", name)


async def test_a_client_whose_name_no_rule_matches_is_refused(
    start: Start, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = authority.issue("alice.pem", "alice.test", common_name="alice")
    async with start(
        ssl_client_auth="requested",
        ssl_truststore_location=str(authority.file),
        ssl_principal_mapping_rules="RULE:nobody/x/",
    ) as broker:
        async with connected(broker, authority.client(certificate)) as peer:
            assert await peer.closed() == b""
        assert await principal_of(broker, authority.client()) == ANONYMOUS
    assert "no rule of ssl.principal.mapping.rules matches its certificate" in caplog.text


async def test_a_client_without_a_trusted_certificate_is_refused_where_one_is_required(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path).issue("mallory.pem", "m.test")
    settings = {
        "ssl_client_auth": "required",
        "ssl_truststore_location": str(authority.file),
    }
    async with start(http_listen="https://127.0.0.1:0", **settings) as broker:
        for certificate, version in product((None, stranger), VERSIONS):
            context = authority.client(certificate)
            context.minimum_version = context.maximum_version = version
            for address in (broker.address, broker.http_address):
                with pytest.raises(ssl.SSLError, match="ALERT"):
                    await sent_by_tls(address, context)
        await until(lambda: not broker.listener.statistics().connections)


async def sent_by_tls(address: Address, context: ssl.SSLContext) -> bytes:
    """What the server sends to a client that says nothing."""
    reader, writer = await asyncio.open_connection(
        *address, ssl=context, server_hostname="localhost"
    )
    try:
        return await reader.read()
    finally:
        writer.transport.abort()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1.* is deprecated")
async def test_a_scanner_finds_no_old_version_and_no_weak_cipher(
    start: Start, authority: Authority
) -> None:
    async with start() as broker:
        for version, ciphers in (
            (ssl.TLSVersion.TLSv1, "ALL:@SECLEVEL=0"),
            (ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0"),
            (ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256"),  # no forward secrecy
            (ssl.TLSVersion.TLSv1_2, "aNULL:eNULL:@SECLEVEL=0"),
            (ssl.TLSVersion.TLSv1_2, "3DES:RC4:CAMELLIA:AESCCM:@SECLEVEL=0"),
            (ssl.TLSVersion.TLSv1_2, "ECDHE+AES128+SHA256:ECDHE+AES+SHA1"),  # CBC
        ):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(authority.file)
            context.set_ciphers(ciphers)
            context.minimum_version = context.maximum_version = version
            with pytest.raises(ssl.SSLError, match="ALERT"):
                async with connected(broker, context):
                    pass


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not on the PATH")
async def test_a_scanner_finds_no_renegotiation(start: Start) -> None:
    async with start() as broker:
        host, port = broker.address
        scanner = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-tls1_2", "-connect", f"{host}:{port}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        found, _ = await asyncio.wait_for(scanner.communicate(b"R\n"), 20)
        assert b"RENEGOTIATING" in found
        assert b"no renegotiation" in found


async def test_a_flood_of_requests_for_new_keys_is_cut(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    def is_closed(updates: int) -> bool:
        """Whether the server closes the connection, instead of answering each of them."""
        key_log = tmp_path / f"keys-{updates}"
        left = 27 * updates
        with key_updates(broker.address, authority.client(), key_log, updates) as client:
            client.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                while left > 0 and (some := client.recv(100_000)):
                    left -= len(some)
        return left > 0

    async with start() as broker:
        assert not await asyncio.to_thread(is_closed, 10)
        assert await asyncio.to_thread(is_closed, 500)


@contextlib.contextmanager
def key_updates(
    address: Address, context: ssl.SSLContext, key_log: Path, updates: int
) -> Iterator[socket.socket]:
    """The socket of a client that has sent so many KeyUpdates, which Python's ssl cannot."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(key_log)
    with socket.create_connection(address) as plain:
        tls = context.wrap_socket(plain, server_hostname="localhost")
        cipher = tls.cipher()
        assert cipher is not None
        assert cipher[0] == "TLS_AES_256_GCM_SHA384"
        secret = bytes.fromhex(key_log.read_text().split("CLIENT_TRAFFIC_SECRET_0 ")[1].split()[1])
        records = b""
        for _ in range(updates):
            head = b"\x17\3\3" + struct.pack(">H", len(KEY_UPDATE) + 16)
            key, nonce = expanded(secret, "key", 32), expanded(secret, "iv", 12)
            records += head + AESGCM(key).encrypt(nonce, KEY_UPDATE, head)
            secret = expanded(secret, "traffic upd", 48)
        with socket.socket(fileno=tls.detach()) as raw:
            raw.sendall(records)
            yield raw


def expanded(secret: bytes, label: str, size: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446 for up to 48 bytes."""
    name = f"tls13 {label}".encode()
    info = struct.pack(">HB", size, len(name)) + name + b"\0\1"
    return hmac.digest(secret, info, "sha384")[:size]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_is_resumed_at_its_listener_only_and_by_its_principal(
    start: Start, authority: Authority, version: ssl.TLSVersion
) -> None:
    alice = authority.client(authority.issue("alice.pem", "alice.test", common_name="alice"))
    nobody = authority.client()
    nobody.minimum_version = alice.minimum_version = version
    nobody.maximum_version = alice.maximum_version = version
    async with start(
        listeners="OPEN://127.0.0.1:0,ALSO://127.0.0.1:0,CLOSED://127.0.0.1:0",
        listener_security_protocol_map="OPEN:SSL,ALSO:SSL,CLOSED:SSL",
        ssl_truststore_location=str(authority.file),
        ssl_principal_mapping_rules="RULE:^CN=([^,]*),.*$/$1/",
        **{"listener.name.closed.ssl.client.auth": "required"},
    ) as broker:
        seen: list[str] = []

        def look(_services: Any, exchange: Any, _request: Any) -> None:
            seen.append(exchange.peer.principal.name)
            exchange.respond_encoded(bytes(6))

        broker.dispatcher.register(BY_NAME["end_txn"].key, look)
        opened, closed = broker.addresses["OPEN"], broker.addresses["CLOSED"]
        reused, session = await asyncio.to_thread(ask, opened, nobody)
        assert not reused
        assert (await asyncio.to_thread(ask, opened, nobody, session))[0]
        assert not (await asyncio.to_thread(ask, broker.addresses["ALSO"], nobody, session))[0]
        with pytest.raises(ssl.SSLError, match="ALERT"):
            await asyncio.to_thread(ask, closed, nobody, session)
        _, session = await asyncio.to_thread(ask, closed, alice)
        assert (await asyncio.to_thread(ask, closed, alice, session))[0]
    assert seen == ["ANONYMOUS"] * 3 + ["alice"] * 2


def ask(
    address: Address, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[bool, ssl.SSLSession]:
    """Ask something; whether the session was resumed, and the one to resume."""
    key = BY_NAME["end_txn"].key
    content = struct.pack(">hhih", key, 0, 1, -1) + encode(request(key, 0, **END))
    with (
        socket.create_connection(address) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as client,
    ):
        client.sendall(struct.pack(">i", len(content)) + content)
        assert client.recv(100)
        return bool(client.session_reused), client.session


async def test_handshakes_that_fail_are_closed_and_logged_with_the_reason(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kohort.connections")
    async with start(ssl_handshake_timeout_ms=50) as broker:
        with socket.create_connection(broker.address):
            pass
        async with connected(broker, None) as silent, connected(broker, None) as plain:
            body = encode(request(BY_NAME["api_versions"].key, 0))
            plain.send(plain.frame("api_versions", 0, body))
            for peer in (plain, silent):
                await peer.closed()
        await until(lambda: not broker.listener.statistics().connections)
    reasons = [each.getMessage() for each in caplog.records if "handshake" in each.msg]
    assert len(reasons) == 3
    assert all(
        re.fullmatch(r"TLS handshake with 127\.0\.0\.1 failed: .+", each) for each in reasons
    )


async def test_silent_handshakes_keep_nobody_out(start: Start, authority: Authority) -> None:
    async with start() as broker:
        host, port = broker.address
        silent = [await asyncio.open_connection(host, port) for _ in range(700)]
        async with asyncio.timeout(60), connected(broker, authority.client()) as peer:
            assert await cluster_of(peer) == broker.cluster_id
        assert broker.listener.statistics().connections <= 514
        for _, writer in silent:
            writer.transport.abort()


async def test_few_handshakes_begin_in_one_turn(start: Start) -> None:
    async with start() as broker:
        clients = [socket.create_connection(broker.address) for _ in range(64)]
        begun = [0]
        while begun[-1] < len(clients):
            await asyncio.sleep(0)
            begun.append(broker.listener.statistics().connections)
        assert max(after - before for before, after in pairwise(begun)) <= 16
        for client in clients:
            client.close()


async def test_a_small_request_takes_little_memory(start: Start, authority: Authority) -> None:
    def taken(address: tuple[str, int]) -> int:
        """The least of several requests: the server does other things beside them."""
        context = authority.client()
        frame = struct.pack(">i", 10) + struct.pack(">hhih", BY_NAME["api_versions"].key, 0, 1, -1)
        found = []
        with (
            socket.create_connection(address) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            for _ in range(10):
                tracemalloc.start()
                client.sendall(frame)
                assert client.recv(8_192)
                found.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        return min(found)

    async with start() as broker:
        assert await asyncio.to_thread(taken, broker.address) < 100_000


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
async def test_a_closed_connection_leaves_nothing_to_the_garbage_collection(
    start: Start, authority: Authority, protocol: str
) -> None:
    def connect(address: Address) -> None:
        context = authority.client()
        frame = struct.pack(">ihhih", 10, BY_NAME["api_versions"].key, 0, 1, -1)
        with (
            socket.create_connection(address) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(frame)
            assert client.recv(8_192)

    def left() -> int:
        return sum(isinstance(each, (Connection, ssl.SSLObject)) for each in gc.get_objects())

    async with start(listeners=f"{protocol}://127.0.0.1:0") as broker:
        gc.collect()
        gc.disable()
        try:
            before = left()
            await asyncio.to_thread(connect, broker.address)
            await until(lambda: not broker.listener.statistics().connections)
            await until(lambda: left() == before)
        finally:
            gc.enable()


REFUSED = {
    "plain text": None,
    "no certificate": (None, ssl.TLSVersion.TLSv1_2),
    "no certificate, 1.3": (None, ssl.TLSVersion.TLSv1_3),
    "an unknown authority": ("stranger", ssl.TLSVersion.TLSv1_2),
    "an unknown authority, 1.3": ("stranger", ssl.TLSVersion.TLSv1_3),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_refused_handshakes_leave_nothing_to_the_garbage_collection(
    start: Start, authority: Authority, tmp_path: Path, kind: str
) -> None:
    def connect(address: Address, context: ssl.SSLContext | None) -> None:
        with socket.create_connection(address) as plain, contextlib.suppress(OSError):
            if context is None:
                plain.sendall(b"\0\0\1\0" + bytes(256))
                plain.recv(8_192)
                return
            with context.wrap_socket(plain, server_hostname="localhost") as client:
                client.recv(8_192)  # TLS 1.3 tells of the refusal here

    context, refused = None, REFUSED[kind]
    if refused is not None:
        certificate, version = refused
        if certificate is not None:
            certificate = Authority(tmp_path).issue("mallory.pem", "m.test")
        context = authority.client(certificate)
        context.minimum_version = context.maximum_version = version
    settings = {
        "ssl_client_auth": "required",
        "ssl_truststore_location": str(authority.file),
    }
    async with start(http_listen="https://127.0.0.1:0", **settings) as broker:
        await asyncio.to_thread(connect, broker.address, context)  # with its imports
        await until(lambda: not broker.listener.statistics().connections)
        with uncollected() as garbage:
            for _ in range(100):
                for address in (broker.address, broker.http_address):
                    await asyncio.to_thread(connect, address, context)
            await until(lambda: not broker.listener.statistics().connections)
        # asyncio's transports refer to themselves. They are small without what they were for.
        assert not [each for each in garbage if isinstance(each, (Connection, ssl.SSLObject))]
        assert (errors_in(garbage), frames_in(garbage)) == ([], [])
        assert not [each for each in garbage if sys.getsizeof(each) > 10_000]


async def test_large_responses_are_encrypted_as_fast_as_the_client_reads(
    start: Start, authority: Authority
) -> None:
    large = os.urandom(9_000_001)
    pieces = [large[:5_000_000], large[5_000_000:8_900_000], large[8_900_000:]]
    async with start() as broker:
        broker.dispatcher.register(
            BY_NAME["end_txn"].key,
            lambda _services, exchange, _request: exchange.respond_encoded(pieces),
        )
        async with connected(broker, authority.client()) as peer:
            peer.send(peer.request("end_txn", 0, **END) * 2)
            for correlation_id in (1, 1):
                content = await peer.content()
                assert content == struct.pack(">i", correlation_id) + large
        await until(lambda: not broker.listener.statistics().connections)
        assert broker.listener.statistics().unread_bytes == 0


async def test_responses_that_were_read_at_last_count_no_more(
    start: Start, authority: Authority
) -> None:
    async with start() as broker:
        broker.dispatcher.register(
            BY_NAME["end_txn"].key,
            lambda _services, exchange, _request: exchange.respond_encoded(bytes(100_000)),
        )
        async with connected(broker, authority.client()) as peer:
            transport: Any = peer.writer.transport
            transport.pause_reading()
            responses = 0
            while not broker.listener.statistics().unread_bytes:
                peer.send(peer.request("end_txn", 0, **END))
                responses += 1
                await until(lambda: sum(broker.listener.metrics.requests.values()) == responses)  # noqa: B023
            transport.resume_reading()
            for _ in range(responses):
                await peer.content()
            await until(lambda: not broker.listener.statistics().unread_bytes)


@pytest.mark.parametrize("body", [None, bytes(9_000_000)], ids=["awaited", "unread"])
async def test_the_log_says_nothing_of_a_client_that_goes_before_its_response(
    start: Start, authority: Authority, caplog: pytest.LogCaptureFixture, body: bytes | None
) -> None:
    requested = threading.Event()

    def respond(_services: Any, exchange: Any, _request: Any) -> None:
        requested.set()
        if body is not None:
            exchange.respond_encoded(body)

    def ask_and_go(address: Address) -> None:
        content = encode(request(BY_NAME["end_txn"].key, 0, **END))
        header = struct.pack(">hhih", BY_NAME["end_txn"].key, 0, 1, -1)
        frame = struct.pack(">i", len(header) + len(content)) + header + content
        with (
            socket.create_connection(address) as plain,
            authority.client().wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(frame)
            assert requested.wait(5)
            with contextlib.suppress(ssl.SSLError):
                client.unwrap()
            while socket.socket.recv(client, 1 << 16):
                pass

    async with start() as broker:
        broker.dispatcher.register(BY_NAME["end_txn"].key, respond)
        await asyncio.to_thread(ask_and_go, broker.address)
        await until(lambda: not broker.listener.statistics().connections)
    assert not [each for each in caplog.records if each.name == "asyncio"]


async def test_certificates_are_reloaded_for_new_connections(
    start: Start, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with start() as broker, connected(broker, authority.client()) as open_before:
        before = await serial_number(broker, authority.client())
        broker.reload_files()
        await broker.certificates.reloaded()
        assert await serial_number(broker, authority.client()) == before
        authority.issue("server.pem", common_name="kohort")
        broker.reload_files()
        await broker.certificates.reloaded()
        after = await serial_number(broker, authority.client())
        assert after != before
        (tmp_path / "server.pem").write_text("damaged")
        broker.reload_files()
        await broker.certificates.reloaded()
        assert "certificate reload failed, keeping the current certificates" in caplog.text
        assert await serial_number(broker, authority.client()) == after
        assert await cluster_of(open_before) == broker.cluster_id


async def test_files_that_cannot_be_used_leave_what_is_in_use(
    start: Start, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files that are half written, of two keys, out of their time, or large without an end."""
    now, day = datetime.now(UTC), timedelta(days=1)
    good, other = (
        authority.issue(name, common_name="kohort").read_bytes() for name in ("server.pem", "o.pem")
    )
    of_other = other[: other.index(b"-----BEGIN CERTIFICATE")]
    expired = authority.issue(
        "e.pem", common_name="kohort", expires=now - day, begins=now - 9 * day
    )
    early = authority.issue("f.pem", common_name="kohort", begins=now + day)
    wrong = [
        *(good[:size] for size in (0, 100, len(good) // 3, len(good) // 2, len(good) - 30)),
        of_other + good[good.index(b"-----BEGIN CERTIFICATE") :],
        expired.read_bytes(),
        early.read_bytes(),
        (b"-----BEGIN CERTIFICATE-----" * (MAX_FILE_BYTES // 27))[:MAX_FILE_BYTES],
    ]
    authority.issue("server.pem", common_name="kohort").write_bytes(good)
    async with start() as broker, connected(broker, authority.client()) as open_before:
        before = await serial_number(broker, authority.client())
        for number, content in enumerate(wrong, 1):
            # As Kubernetes does: what the link leads to is complete, and another file.
            (tmp_path / f"{number}.pem").write_bytes(content)
            (tmp_path / f"{number}.pem").chmod(0o600)
            (tmp_path / "link").symlink_to(f"{number}.pem")
            (tmp_path / "link").replace(tmp_path / "server.pem")
            broker.reload_files()
            await broker.certificates.reloaded()
            assert (
                caplog.text.count("certificate reload failed, keeping the current certificates")
                == number
            )
            assert await serial_number(broker, authority.client()) == before
        (tmp_path / "server.pem").unlink()
        (tmp_path / "server.pem").symlink_to("o.pem")
        broker.reload_files()
        await broker.certificates.reloaded()
        assert await serial_number(broker, authority.client()) != before
        assert await cluster_of(open_before) == broker.cluster_id


async def serial_number(broker: Broker, context: ssl.SSLContext) -> str:
    async with connected(broker, context) as peer:
        return str(peer.writer.get_extra_info("peercert")["serialNumber"])


END = {"transactional_id": "t", "producer_id": 0, "producer_epoch": 0, "committed": True}
KEYSTORE = "listener.name.ssl.ssl.keystore.location"


async def alter(
    peer: Peer, name: str, value: str, *, validate_only: bool = False
) -> tuple[ErrorCode, str]:
    config = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": 4, "resource_name": "0", "configs": [config]}
    answer = await peer.ask(
        "incremental_alter_configs", 1, resources=[resource], validate_only=validate_only
    )
    (result,) = answer.responses
    return result.error_code, result.error_message or ""


async def test_clients_replace_the_certificates_of_a_listener(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    async with start() as broker, connected(broker, authority.client()) as peer:
        before = await serial_number(broker, authority.client())
        other = authority.issue("other.pem", common_name="kohort")
        assert await alter(peer, KEYSTORE, str(other)) == (ErrorCode.none, "")
        after = await serial_number(broker, authority.client())
        assert after != before
        # The same path counts if its file has changed.
        authority.issue("other.pem", common_name="kohort")
        assert await alter(peer, KEYSTORE, str(other)) == (ErrorCode.none, "")
        last = await serial_number(broker, authority.client())
        assert last != after
        for wrong, why in (
            (str(tmp_path / "missing.pem"), "cannot be read"),
            (str(tmp_path), "cannot be read"),
            ("/dev/zero", "no file of PEM"),
            (str(authority.file), "cannot be used"),
            (str(authority.issue("dn.pem", common_name="another")), "another name"),
            (str(authority.issue("san.pem", "localhost", common_name="kohort")), "alternative"),
        ):
            code, message = await alter(peer, KEYSTORE, wrong)
            assert code is ErrorCode.invalid_request
            assert why in message
        code, message = await alter(peer, "ssl.keystore.location", str(other))
        assert code is ErrorCode.invalid_request
        assert "only per-listener" in message
        assert await serial_number(broker, authority.client()) == last
        described = await peer.ask(
            "describe_configs",
            4,
            resources=[
                {"resource_type": 4, "resource_name": "0", "configuration_keys": [KEYSTORE]}
            ],
            include_synonyms=True,
        )
        (entry,) = described.results[0].configs
        assert (entry.value, entry.read_only, entry.config_source) == (str(other), False, 2)


async def test_another_change_reads_no_files(start: Start, authority: Authority) -> None:
    async with start() as broker, connected(broker, authority.client()) as peer:
        other = authority.issue("other.pem", common_name="kohort")
        assert await alter(peer, KEYSTORE, str(other)) == (ErrorCode.none, "")
        before = await serial_number(broker, authority.client())
        authority.issue("other.pem", common_name="another")
        for name in ("max.connections", "message.max.bytes"):
            assert await alter(peer, name, "5000") == (ErrorCode.none, "")
        await broker.certificates.reloaded()
        assert await serial_number(broker, authority.client()) == before


async def test_a_change_that_is_only_validated_replaces_nothing(
    start: Start, authority: Authority
) -> None:
    async with start() as broker, connected(broker, authority.client()) as peer:
        before = await serial_number(broker, authority.client())
        other = authority.issue("other.pem", common_name="kohort")
        another = authority.issue("dn.pem", common_name="another")
        assert await alter(peer, KEYSTORE, str(other), validate_only=True) == (ErrorCode.none, "")
        code, _ = await alter(peer, KEYSTORE, str(another), validate_only=True)
        assert code is ErrorCode.invalid_request
        assert await serial_number(broker, authority.client()) == before


async def test_the_last_of_concurrent_key_store_changes_is_served(
    start: Start, authority: Authority
) -> None:
    async with start() as broker, contextlib.AsyncExitStack() as peers:
        changes = []
        for number in range(6):
            file = authority.issue(f"{number}.pem", common_name="kohort")
            peer = await peers.enter_async_context(connected(broker, authority.client()))
            changes.append(asyncio.create_task(alter(peer, KEYSTORE, str(file))))
            broker.reload_files()
        assert await asyncio.gather(*changes) == [(ErrorCode.none, "")] * 6
        last = Path(broker.config[KEYSTORE])
        authority.issue(last.name, common_name="kohort")
        broker.reload_files()
        broker.reload_files()
        await broker.certificates.reloaded()
        assert int(await serial_number(broker, authority.client()), 16) == serial_number_in(last)


def serial_number_in(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


async def test_keys_as_text_and_with_a_password(start: Start, authority: Authority) -> None:
    pem = authority.issue("inline.pem", common_name="kohort").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"sesame"),
    ).decode()
    settings = {
        "ssl_keystore_key": locked,
        # Without the key: OpenSSL may go on to it after a wrong password.
        "ssl_keystore_certificate_chain": pem[pem.index(b"-----BEGIN CERTIFICATE") :].decode(),
        "ssl_keystore_location": None,
    }
    async with start(**settings, ssl_key_password="sesame") as broker:
        async with connected(broker, authority.client()) as peer:
            assert await cluster_of(peer) == broker.cluster_id
            described = await peer.ask(
                "describe_configs",
                4,
                resources=[{"resource_type": 4, "resource_name": "0", "configuration_keys": None}],
                include_synonyms=True,
            )
        entries = {each.name: each for each in described.results[0].configs}
        secret = entries["ssl.keystore.key"]
        assert secret.is_sensitive
        assert secret.value is None
        assert [each.value for each in secret.synonyms] == [None]
        assert not entries["ssl.keystore.location"].is_sensitive
    for password in ("wrong", None):
        with pytest.raises(KohortError, match=r"private key in PEM that ssl\.key\.password"):
            async with start(**settings, ssl_key_password=password):
                pass


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location is needed"),
        ({"ssl.keystore.location": "/nowhere/k.pem"}, "cannot be read"),
        ({"ssl.client.auth": "required"}, "needs ssl.truststore.location"),
        ({"ssl.client.auth": "required", "ssl.truststore.certificates": "x"}, "trust store"),
        ({"ssl.cipher.suites": "ECDHE-RSA-NONE"}, "ECDHE-RSA-NONE is not known"),
        ({"ssl.enabled.protocols": ""}, "a version is needed"),
    ],
)
async def test_unusable_tls_settings_end_the_start(
    start: Start, settings: dict[str, object], why: str
) -> None:
    with pytest.raises(ConfigError, match=f"listener SSL: .*{why}"):
        async with start(**settings):
            pass


async def test_a_key_that_every_user_can_read_is_refused(start: Start, tmp_path: Path) -> None:
    (tmp_path / "server.pem").chmod(0o644)
    with pytest.raises(ConfigError, match="every user can read the key"):
        async with start():
            pass
    async with start(insecure=True):
        pass


async def test_the_http_port_serves_tls_and_asks_for_a_token(
    start: Start, authority: Authority
) -> None:
    async with start(http_listen="https://127.0.0.1:0", http_token="sesame") as broker:
        assert broker.http_address is not None
        for path, token, status in (
            ("/health", "", b"200"),
            ("/groups", "", b"401"),
            ("/groups", "Authorization: Bearer sesame\r\n", b"200"),
        ):
            await until(lambda: broker.groups.is_loaded)
            reader, writer = await asyncio.open_connection(
                *broker.http_address, ssl=authority.client(), server_hostname="localhost"
            )
            writer.write(f"GET {path} HTTP/1.1\r\n{token}\r\n".encode())
            answer = await reader.read()
            writer.transport.abort()
            assert answer.split(b" ")[1] == status
        before = await serial_number_at(broker.http_address, authority)
        authority.issue("server.pem", common_name="kohort")
        broker.reload_files()
        await broker.certificates.reloaded()
        assert await serial_number_at(broker.http_address, authority) != before


async def serial_number_at(address: tuple[str, int], authority: Authority) -> str:
    _, writer = await asyncio.open_connection(
        *address, ssl=authority.client(), server_hostname="localhost"
    )
    writer.transport.abort()
    return str(writer.get_extra_info("peercert")["serialNumber"])


async def test_silent_handshakes_at_the_http_port_are_bounded(
    start: Start, authority: Authority
) -> None:
    async with start(http_listen="https://127.0.0.1:0") as broker:
        silent = [await asyncio.open_connection(*broker.http_address) for _ in range(100)]
        assert await serial_number_at(broker.http_address, authority)
        async with asyncio.timeout(60):
            for reader, _ in silent[:60]:
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b"", "it is closed"
        for _, writer in silent:
            writer.transport.abort()


async def test_the_http_port_can_ask_for_certificates(start: Start, authority: Authority) -> None:
    settings = {
        "listener.name.http.ssl.client.auth": "required",
        "ssl_truststore_location": str(authority.file),
    }
    async with start(http_listen="https://127.0.0.1:0", **settings) as broker:
        reader, writer = await asyncio.open_connection(
            *broker.http_address, ssl=authority.client(), server_hostname="localhost"
        )
        writer.write(b"GET /health HTTP/1.1\r\n\r\n")
        try:
            assert await reader.read() == b""
        except OSError:
            pass


async def test_the_http_port_reloads_its_authorities(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(Authority(tmp_path).file.read_bytes())
    client = authority.client(authority.issue("alice.pem", "alice.test", common_name="alice"))
    truststore = "listener.name.http.ssl.truststore.location"
    settings = {"listener.name.http.ssl.client.auth": "required", truststore: str(trusted)}

    async def health() -> bytes:
        assert broker.http_address is not None
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(
                *broker.http_address, ssl=client, server_hostname="localhost"
            )
            writer.write(b"GET /health HTTP/1.1\r\n\r\n")
            return (await reader.read())[:8]
        return b""

    async with start(http_listen="https://127.0.0.1:0", **settings) as broker:
        assert await health() == b""
        trusted.write_bytes(authority.file.read_bytes())
        broker.reload_files()
        await broker.certificates.reloaded()
        assert await health() == b"HTTP/1.1"
        trusted.write_bytes(Authority(tmp_path).file.read_bytes())
        async with connected(broker, authority.client()) as peer:
            assert await alter(peer, truststore, str(trusted)) == (ErrorCode.none, "")
        assert await health() == b""


@pytest.mark.parametrize(
    "suite", ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]
)
async def test_cipher_suites_have_the_names_of_iana_or_openssl(
    start: Start, authority: Authority, suite: str
) -> None:
    settings = {"ssl_cipher_suites": suite, "ssl_enabled_protocols": "TLSv1.2"}
    async with start(**settings) as broker, connected(broker, authority.client()) as peer:
        name, version, _ = peer.writer.get_extra_info("cipher")
    assert version == "TLSv1.2"
    assert name in ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305")
