"""One connection, against brokers that answer, hang, hang up, and answer garbage."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.fake_cluster import HANG, HANG_UP, FakeBroker, FakeCluster
from client.security.test_settings import scram_server
from effort import examples
from kohort.client.config import ClientConfig
from kohort.client.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    RebootstrapRequiredError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from kohort.client.net.connection import Connection
from kohort.client.net.handshake import ExpectedNode
from kohort.client.net.sending import MAX_JOINED_SIZE, join_pieces
from kohort.client.security import Security
from kohort.errors import ErrorCode
from kohort.server.broker import Broker

HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeBroker]:
    async with FakeCluster() as cluster:
        cluster.brokers[0].on("heartbeat", {"error_code": 0})
        yield cluster.brokers[0]


async def opened(broker: FakeBroker, **options: Any) -> Connection:
    return await Connection.open(("127.0.0.1", broker.port), broker.cluster.config(**options))


async def test_a_connection_to_a_kohort_server(broker: Broker, config: ClientConfig) -> None:
    connection = await Connection.open(config.servers[0], config)
    answer = await connection.send("heartbeat", **HEARTBEAT)
    assert answer.error_code is ErrorCode.unknown_member_id
    assert connection.version("heartbeat") == 4
    assert connection.version("consumer_group_heartbeat") == 1
    await connection.close()
    with pytest.raises(BrokerUnreachableError, match="closed by us"):
        await connection.send("heartbeat", **HEARTBEAT)


@pytest.mark.parametrize("most", [0, 1, 2, 3, 4])
async def test_api_versions_is_repeated_in_a_version_of_the_broker(
    fake: FakeBroker, most: int
) -> None:
    fake.versions["api_versions"] = (0, most)
    connection = await opened(fake)
    assert connection.version("heartbeat") == 4
    # It was refused without being read, if it was refused at all.
    assert len(fake.asked("api_versions")) == 1
    await connection.close()


async def test_the_highest_common_version_of_client_broker_and_caller_is_used(
    fake: FakeBroker,
) -> None:
    fake.versions["heartbeat"] = (1, 3)
    connection = await opened(fake)
    await connection.send("heartbeat", **HEARTBEAT)
    await connection.send("heartbeat", max_version=2, **HEARTBEAT)
    assert [each.__version__ for each in fake.asked("heartbeat")] == [3, 2]
    with pytest.raises(
        UnsupportedVersionError, match=("heartbeat v4 to v4 is needed, the broker speaks v1 to v3")
    ):
        await connection.send("heartbeat", min_version=4, **HEARTBEAT)
    with pytest.raises(UnsupportedVersionError, match="does not support it"):
        await connection.send("describe_cluster")
    await connection.close()


async def test_requests_are_pipelined(fake: FakeBroker) -> None:
    gate = asyncio.Event()

    async def answer(request: SimpleNamespace) -> dict[str, int]:
        await gate.wait()
        return {"error_code": request.body.generation_id}

    fake.on("heartbeat", answer)
    connection = await opened(fake)
    calls = [
        asyncio.create_task(connection.send("heartbeat", **HEARTBEAT | {"generation_id": n}))
        for n in range(20)
    ]
    await asyncio.sleep(0.01)
    assert connection.in_flight == 20
    gate.set()
    assert [int((await call).error_code) for call in calls] == list(range(20))
    await connection.close()


async def test_requests_in_flight_are_bounded(fake: FakeBroker) -> None:
    fake.on("heartbeat", lambda _request: HANG)
    connection = await opened(fake, max_in_flight_requests_per_connection=3)
    calls = [asyncio.create_task(connection.send("heartbeat", **HEARTBEAT)) for _ in range(10)]
    await asyncio.sleep(0.01)
    assert connection.in_flight == 3
    await connection.close()
    assert all(
        isinstance(each, BrokerUnreachableError)
        for each in await asyncio.gather(*calls, return_exceptions=True)
    )


async def test_a_request_that_times_out_closes_the_connection(fake: FakeBroker) -> None:
    fake.on("heartbeat", lambda _request: HANG)
    connection = await opened(fake)
    patient = asyncio.create_task(connection.send("heartbeat", **HEARTBEAT))
    await asyncio.sleep(0)
    with pytest.raises(RequestTimeoutError, match="heartbeat got no response within"):
        await connection.send("heartbeat", timeout_ms=20, **HEARTBEAT)
    with pytest.raises(BrokerUnreachableError):
        await patient
    assert connection.closed


async def test_an_answered_request_does_not_time_out(fake: FakeBroker) -> None:
    connection = await opened(fake)
    await connection.send("heartbeat", timeout_ms=5, **HEARTBEAT)
    await asyncio.sleep(0.02)
    assert not connection.closed
    await connection.close()


async def test_a_cancelled_call_does_not_change_the_order_of_responses(fake: FakeBroker) -> None:
    gate = asyncio.Event()

    async def answer(request: SimpleNamespace) -> dict[str, int]:
        await gate.wait()
        return {"error_code": request.body.generation_id}

    fake.on("heartbeat", answer)
    connection = await opened(fake)
    first, second = (
        asyncio.create_task(connection.send("heartbeat", **HEARTBEAT | {"generation_id": n}))
        for n in (1, 2)
    )
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert int((await second).error_code) == 2
    await connection.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (struct.pack(">ii", 4, 999), "correlation id 999"),
        (struct.pack(">i", 2**31 - 1), "accepted"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "cannot be decoded"),
        (struct.pack(">iib", 5, 2, 0), "ends early"),
        (struct.pack(">iib", 5, 2, 0) * 2, "ends early|nobody asked"),
        (HANG_UP, "closed the connection"),
    ],
)
async def test_a_malformed_response_closes_the_connection(
    fake: FakeBroker, answer: Any, told: str
) -> None:
    fake.on("heartbeat", lambda _request: answer)
    connection = await opened(fake)
    with pytest.raises(BrokerUnreachableError, match=told):
        await connection.send("heartbeat", **HEARTBEAT)
    assert connection.closed


async def test_a_response_to_no_request_closes_the_connection(fake: FakeBroker) -> None:
    fake.on(
        "heartbeat",
        lambda _request: struct.pack(">iib", 11, 2, 0) + b"\0" * 6 + struct.pack(">ii", 4, 3),
    )
    connection = await opened(fake)
    await asyncio.gather(connection.send("heartbeat", **HEARTBEAT), return_exceptions=True)
    assert connection.closed
    assert "a response to no request" in connection.reason


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    version=st.sampled_from([1, 5, 9, 12]),
    head=st.sampled_from([b"", b"\0", b"\0\0\0\0", b"\0\0\0\0\0"]),
    count=st.sampled_from(
        [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x80"]
    ),
    rest=st.binary(max_size=60),
)
async def test_a_false_count_closes_only_the_connection(
    fake: FakeBroker, version: int, head: bytes, count: bytes, rest: bytes
) -> None:
    body = head + count + rest
    fake.on("metadata", lambda _request: struct.pack(">ii", 4 + len(body), 2) + body)
    connection = await opened(fake)
    answer = (
        await asyncio.gather(
            connection.send("metadata", max_version=version, topics=[]), return_exceptions=True
        )
    )[0]
    assert (
        isinstance(answer, BrokerUnreachableError)
        or answer.__class__.__name__ == "MetadataResponse"
    )
    await connection.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (HANG_UP, "closed the connection; does this listener need TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the bytes are SSH, not Kafka's protocol; give the port"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP response, not Kafka's protocol; give the p"),
        (b"<!DOCTYPE HTML>\n<html>", "an HTML page, not Kafka's protocol; give the port"),
        (b"<html><head>", "an HTML page, not Kafka's protocol; give the port"),
        (b"\x15\x03\x01\0\x02\x02\x46", "a TLS alert, not .*; does this listener need TLS"),
        (struct.pack(">iib", 5, 1, 0), "ends early"),
    ],
)
async def test_a_server_that_is_no_kafka_broker_is_an_error(
    fake: FakeBroker, answer: Any, told: str
) -> None:
    fake.on("api_versions", lambda _request: answer)
    with pytest.raises(BrokerUnreachableError, match=f"127.0.0.1:{fake.port}.*{told}") as info:
        await opened(fake)
    assert ("TLS" in str(info.value)) == ("TLS" in told)


async def test_a_broker_that_accepts_connections_and_sends_nothing_is_an_error(
    fake: FakeBroker,
) -> None:
    fake.on("api_versions", lambda _request: HANG)
    with pytest.raises(
        BrokerUnreachableError,
        match=r"within 0\.05 s: it sent no response to the first request; is this a Kafka",
    ):
        await opened(fake, socket_connection_setup_timeout_ms=50)


async def test_a_closed_port_is_an_error(fake: FakeBroker) -> None:
    await fake.stop()
    with pytest.raises(
        BrokerUnreachableError, match=f"^127.0.0.1:{fake.port}: Connection refused$"
    ):
        await opened(fake)


async def test_an_idle_connection_is_closed(fake: FakeBroker) -> None:
    connection = await opened(fake, connections_max_idle_ms=30)
    for _ in range(3):
        await asyncio.sleep(0.02)
        await connection.send("heartbeat", **HEARTBEAT)
    assert not connection.closed
    await asyncio.sleep(0.08)
    assert connection.closed
    assert "idle" in connection.reason


async def test_large_requests_and_responses_arrive(fake: FakeBroker) -> None:
    size = 3_000_000
    fake.on("sasl_authenticate", lambda request: {"auth_bytes": request.body.auth_bytes[::-1]})
    connection = await opened(fake)
    sent = bytes(range(250)) * (size // 250)
    answers = await asyncio.gather(
        *(connection.send("sasl_authenticate", auth_bytes=sent) for _ in range(3))
    )
    assert [answer.auth_bytes == sent[::-1] for answer in answers] == [True] * 3
    await connection.close()


# Authentication


def sasl(mechanism: str = "PLAIN", **options: Any) -> Security:
    given: dict[str, Any] = {"username": "u", "password": "secret"}
    return Security(protocol="SASL_PLAINTEXT", mechanism=mechanism, **given | options)


async def test_sasl_plain_authenticates(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {"mechanisms": ["PLAIN"]})
    fake.on("sasl_authenticate", {"auth_bytes": b""})
    connection = await opened(fake, security=sasl())
    assert [name for name, _ in fake.requests] == [
        "api_versions",
        "sasl_handshake",
        "sasl_authenticate",
    ]
    assert fake.asked("sasl_authenticate")[0].auth_bytes == b"\0u\0secret"
    await connection.close()


@pytest.mark.parametrize(
    ("mechanism", "digest"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
)
async def test_sasl_scram_authenticates(fake: FakeBroker, mechanism: str, digest: str) -> None:
    server = scram_server(digest, "secret")
    fake.on("sasl_handshake", {"mechanisms": [mechanism]})
    fake.on("sasl_authenticate", lambda request: {"auth_bytes": server(request.body.auth_bytes)})
    connection = await opened(fake, security=sasl(mechanism))
    assert len(fake.asked("sasl_authenticate")) == 2
    await connection.close()


async def test_a_wrong_password_is_an_error(fake: FakeBroker) -> None:
    server = scram_server("sha256", "another")
    fake.on("sasl_handshake", {"mechanisms": ["SCRAM-SHA-256"]})
    fake.on("sasl_authenticate", lambda request: {"auth_bytes": server(request.body.auth_bytes)})
    with pytest.raises(AuthenticationError, match="invalid-proof"):
        await opened(fake, security=sasl("SCRAM-SHA-256"))


async def test_the_error_of_refused_credentials_has_the_brokers_message(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {})
    fake.on(
        "sasl_authenticate", {"error_code": 58, "error_message": "Invalid username or password"}
    )
    with pytest.raises(
        AuthenticationError, match="PLAIN: Invalid username or password; check username 'u'"
    ):
        await opened(fake, security=sasl())


async def test_a_mechanism_that_the_broker_does_not_offer_is_an_error(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {"error_code": 33, "mechanisms": ["GSSAPI", "PLAIN"]})
    with pytest.raises(
        AuthenticationError,
        match="does not offer SCRAM-SHA-512, it offers GSSAPI, PLAIN: set mechanism",
    ):
        await opened(fake, security=sasl("SCRAM-SHA-512"))


async def test_a_session_is_renewed_before_it_ends(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", {"auth_bytes": b"", "session_lifetime_ms": 40})
    connection = await opened(fake, security=sasl())
    for _ in range(30):
        await connection.send("heartbeat", **HEARTBEAT)
        await asyncio.sleep(0.003)
    assert not connection.closed
    names = [name for name, _ in fake.requests]
    begins = [at for at, name in enumerate(names) if name == "sasl_handshake"]
    assert len(begins) >= 2
    assert all(names[at + 1] == "sasl_authenticate" for at in begins), (
        "another request came in between"
    )
    await connection.close()


async def test_a_renewal_waits_for_a_request_that_takes_longer_than_others(
    fake: FakeBroker,
) -> None:
    """A broker takes no handshake before a JoinGroup that waits for other members."""
    lifetimes = iter((20, 0))
    fake.on("sasl_handshake", {})
    fake.on(
        "sasl_authenticate",
        lambda _: {"auth_bytes": b"", "session_lifetime_ms": next(lifetimes)},
    )

    async def slowly(_: SimpleNamespace) -> Any:
        await asyncio.sleep(1)
        return {}

    fake.on("heartbeat", slowly)
    connection = await opened(fake, security=sasl(), request_timeout_ms=500)
    await connection.send("heartbeat", timeout_ms=60_000, **HEARTBEAT)
    fake.on("heartbeat", {})
    await connection.send("heartbeat", timeout_ms=60_000, **HEARTBEAT)
    names = [name for name, _ in fake.requests]
    assert names.count("sasl_handshake") == 2
    assert names[-3:] == ["sasl_handshake", "sasl_authenticate", "heartbeat"]
    await connection.close()


def renewals() -> list[asyncio.Task[Any]]:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return [other for other in others if "_renew" in repr(other)]


async def test_a_renewal_that_waits_ends_with_its_connection(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", {"auth_bytes": b"", "session_lifetime_ms": 20})

    async def never(_: SimpleNamespace) -> Any:
        await asyncio.sleep(60)

    fake.on("heartbeat", never)
    connection = await opened(fake, security=sasl())
    waiting = asyncio.create_task(connection.send("heartbeat", **HEARTBEAT))
    await asyncio.sleep(0.1)
    await connection.close()
    with pytest.raises(BrokerUnreachableError, match="closed by us"):
        await waiting
    assert not renewals()


async def test_a_session_that_cannot_be_renewed_ends_the_connection(fake: FakeBroker) -> None:
    answers = iter(
        (
            {"auth_bytes": b"", "session_lifetime_ms": 20},
            {"error_code": 58, "error_message": "expired"},
        )
    )
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", lambda _request: next(answers))
    connection = await opened(fake, security=sasl())
    await asyncio.sleep(0.05)
    with pytest.raises(BrokerUnreachableError, match="could not be renewed: PLAIN: expired"):
        await connection.send("heartbeat", **HEARTBEAT)


@pytest.mark.parametrize("is_expected", [True, False])
async def test_the_expected_node_is_asked_for_after_authentication(
    fake: FakeBroker, is_expected: bool
) -> None:
    """Before it, Apache Kafka does not compare the node (KIP-1242)."""
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", {"auth_bytes": b""})
    expected = ExpectedNode("fake", 0 if is_expected else 7)
    config = fake.cluster.config(security=sasl())
    opening = Connection.open(("127.0.0.1", fake.port), config, expected=expected)
    if is_expected:
        await opening
    else:
        with pytest.raises(RebootstrapRequiredError, match="not node 7 of cluster fake"):
            await opening
    assert [
        (name, getattr(each, "cluster_id", None))
        for name, each in fake.requests
        if name in ("api_versions", "sasl_authenticate")
    ] == [("api_versions", None), ("sasl_authenticate", None), ("api_versions", "fake")]


async def test_a_broker_before_4_4_is_not_asked_for_the_node_after_authentication(
    fake: FakeBroker,
) -> None:
    fake.versions["api_versions"] = (0, 4)
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", {"auth_bytes": b""})
    config = fake.cluster.config(security=sasl())
    await Connection.open(("127.0.0.1", fake.port), config, expected=ExpectedNode("another", 7))
    assert len(fake.asked("api_versions")) == 1


def bearer(source: Any) -> Security:
    return Security(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token=source)


class Source:
    """Gives a token, and never returns the next time."""

    def __init__(self) -> None:
        self.calls = 0

    async def token(self) -> str:
        self.calls += 1
        if self.calls > 1:
            await asyncio.get_running_loop().create_future()
        return "token"


async def test_a_source_of_tokens_that_never_returns_ends_the_connection(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", {"auth_bytes": b"", "session_lifetime_ms": 20})
    connection = await opened(fake, security=bearer(Source()), request_timeout_ms=200)
    await asyncio.sleep(0.05)
    async with asyncio.timeout(60):
        with pytest.raises(BrokerUnreachableError, match=r"0\.2 s: the source of its tokens \(tok"):
            await connection.send("heartbeat", **HEARTBEAT)
    assert not renewals()


async def test_a_connection_that_is_closed_does_not_wait_for_a_token(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", {"auth_bytes": b"", "session_lifetime_ms": 20})
    source = Source()
    connection = await opened(fake, security=bearer(source))
    async with asyncio.timeout(60):
        while source.calls < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await connection.close()
    await asyncio.sleep(0)
    assert not renewals()


async def test_a_first_token_that_never_comes_is_named(fake: FakeBroker) -> None:
    fake.on("sasl_handshake", {})
    source = Source()
    source.calls = 1
    with pytest.raises(BrokerUnreachableError, match=r"within .* the source of its tokens"):
        await opened(fake, security=bearer(source), socket_connection_setup_timeout_ms=200)


async def test_no_request_is_sent_after_a_renewal_that_failed(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the error: the broker would refuse all requests of the old session."""
    fake.on("sasl_handshake", {})
    fake.on("sasl_authenticate", {"auth_bytes": b"", "session_lifetime_ms": 20})
    connection = await opened(fake, security=sasl())

    def fault(_security: Security) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Security, "exchange", fault)
    await asyncio.sleep(0.1)
    with pytest.raises(BrokerUnreachableError, match="could not be renewed: a fault"):
        await connection.send("heartbeat", **HEARTBEAT)


@pytest.fixture
async def tls(certificate: tuple[Path, Path]) -> AsyncIterator[FakeBroker]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    cluster = FakeCluster()
    cluster.brokers[0].ssl = context
    async with cluster:
        cluster.brokers[0].on("heartbeat", {"error_code": 0})
        yield cluster.brokers[0]


async def test_a_connection_with_tls(tls: FakeBroker, certificate: tuple[Path, Path]) -> None:
    connection = await opened(
        tls, security=Security(protocol="SSL", ssl_cafile=str(certificate[0]))
    )
    assert (await connection.send("heartbeat", **HEARTBEAT)).error_code is ErrorCode.none
    await connection.close()


async def test_a_connection_with_tls_and_sasl(
    tls: FakeBroker, certificate: tuple[Path, Path]
) -> None:
    tls.on("sasl_handshake", {})
    tls.on("sasl_authenticate", {"auth_bytes": b""})
    both = Security(
        protocol="SASL_SSL",
        ssl_cafile=str(certificate[0]),
        mechanism="PLAIN",
        username="u",
        password="p",
    )
    connection = await opened(tls, security=both)
    await connection.close()
    assert tls.asked("sasl_authenticate")


def at(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("trusted", "issued", "told"),
    [
        (False, {}, "unable to get local issuer certificate; trust its authority"),
        (True, {"host": "127.0.0.2"}, "IP address mismatch, .*; connect by a name in the"),
        (True, {"not_after": at(2001)}, "expired; renew the broker's certificate"),
        (True, {"not_before": at(2090), "not_after": at(2091)}, "not yet valid; check the clocks"),
    ],
)
async def test_an_untrusted_certificate_is_an_error_with_advice(
    tmp_path: Path, trusted: bool, issued: dict[str, Any], told: str
) -> None:
    wanted = {"host": "127.0.0.1", "not_before": at(2000)} | issued
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    host = wanted.pop("host")
    authority.issue_cert(host, key_type=trustme.KeyType.ECDSA, **wanted).configure_cert(broker)
    cluster = FakeCluster()
    cluster.brokers[0].ssl = broker
    async with cluster:
        cafile = str(tmp_path / "ca.pem") if trusted else None
        with pytest.raises(AuthenticationError, match=f"certificate verify failed: .*{told}"):
            await opened(cluster.brokers[0], security=Security(protocol="SSL", ssl_cafile=cafile))


async def test_a_missing_client_certificate_is_an_error_with_advice(
    certificate: tuple[Path, Path],
) -> None:
    """In TLS 1.3 it refuses after the handshake, and asyncio's server would not tell why."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.load_verify_locations(certificate[0])
    context.verify_mode = ssl.CERT_REQUIRED

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(received, sent, server_side=True)
        with suppress(ssl.SSLError):  # PEER_DID_NOT_RETURN_A_CERTIFICATE
            while True:
                with suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                writer.write(sent.read())
                received.write(await reader.read(MAX_JOINED_SIZE))
        writer.write(sent.read())
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        security = Security(protocol="SSL", ssl_cafile=str(certificate[0]))
        config = ClientConfig(bootstrap=f"127.0.0.1:{port}", security=security)
        with pytest.raises(
            AuthenticationError, match="set a client certificate that the broker trusts"
        ):
            await Connection.open(("127.0.0.1", port), config)


async def test_plaintext_to_a_tls_listener_is_an_error_with_advice(tls: FakeBroker) -> None:
    with pytest.raises(BrokerUnreachableError, match=f"127.0.0.1:{tls.port}.*need TLS"):
        await opened(tls)


async def test_tls_to_a_plaintext_listener_is_an_error_with_advice(
    broker: Broker, config: ClientConfig
) -> None:
    wrong = replace(config, security=Security(protocol="SSL"))
    with pytest.raises(BrokerUnreachableError, match=r"TLS handshake; is this .* without TLS"):
        await Connection.open(config.servers[0], wrong)


@pytest.mark.parametrize("answer", [{"error_code": 34}, None])
async def test_sasl_to_a_listener_without_sasl_is_an_error(fake: FakeBroker, answer: Any) -> None:
    if answer is None:
        del fake.versions["sasl_handshake"]
    else:
        fake.on("sasl_handshake", answer)
    with pytest.raises(AuthenticationError, match="this listener has no SASL"):
        await opened(fake, security=sasl())


# --- quotas (KIP-219) ---


async def test_a_throttled_connection_sends_no_requests(fake: FakeBroker) -> None:
    pauses = iter([150, 0])
    fake.on("heartbeat", lambda _request: {"error_code": 0, "throttle_time_ms": next(pauses)})
    connection = await opened(fake)
    await connection.send("heartbeat", **HEARTBEAT)
    began = asyncio.get_running_loop().time()
    await connection.send("heartbeat", **HEARTBEAT)
    assert asyncio.get_running_loop().time() - began >= 0.149
    await connection.close()


async def test_the_longest_throttle_applies_up_to_the_request_timeout(
    fake: FakeBroker,
) -> None:
    connection = await opened(fake, request_timeout_ms=120)
    began = asyncio.get_running_loop().time()
    connection.throttle(86_400)
    connection.throttle(0.001)
    await connection.send("heartbeat", **HEARTBEAT)
    assert asyncio.get_running_loop().time() - began >= 0.119
    await connection.close()


async def test_a_throttled_request_fails_when_the_connection_breaks(
    fake: FakeBroker,
) -> None:
    connection = await opened(fake)
    connection.throttle(20)
    waiting = asyncio.ensure_future(connection.send("heartbeat", **HEARTBEAT))
    await asyncio.sleep(0)
    fake.hang_up()
    with pytest.raises(BrokerUnreachableError):
        await waiting


async def test_a_full_transport_stays_full_when_a_pause_ends(fake: FakeBroker) -> None:
    """Each obstacle has to go for itself."""
    connection = await opened(fake)
    connection.pause_writing()
    connection.throttle(0.001)
    waiting = asyncio.ensure_future(connection.send("heartbeat", **HEARTBEAT))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    connection.resume_writing()
    await waiting
    await connection.close()


async def test_no_request_is_sent_between_the_messages_of_a_renewal(fake: FakeBroker) -> None:
    """Not even what had to wait for others' answers when it began: a broker takes nothing else
    then.
    """
    lifetimes = [300, 0]

    async def handshake(_: SimpleNamespace) -> Any:
        await asyncio.sleep(0.05)
        return {"mechanisms": ["PLAIN"]}

    async def slowly(_: SimpleNamespace) -> Any:
        await asyncio.sleep(0.35)
        return {}

    fake.on("sasl_handshake", handshake)
    fake.on(
        "sasl_authenticate", lambda _: {"auth_bytes": b"", "session_lifetime_ms": lifetimes.pop(0)}
    )
    fake.on("heartbeat", slowly)
    security = Security(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="user", password="secret"
    )
    connection = await opened(fake, security=security, max_in_flight_requests_per_connection=1)
    await asyncio.gather(*(connection.send("heartbeat", **HEARTBEAT) for _ in range(2)))
    await connection.close()
    names = [name for name, _ in fake.requests]
    renewal = len(names) - 1 - names[::-1].index("sasl_handshake")
    assert names.count("sasl_handshake") == 2
    assert names[renewal + 1] == "sasl_authenticate"


def test_only_small_pieces_of_a_request_are_joined() -> None:
    first, second = bytes(MAX_JOINED_SIZE + 1), memoryview(bytes(MAX_JOINED_SIZE + 1))
    found = list(join_pieces((b"a", b"b", first, b"c", b"d", second, second)))
    assert found == [b"ab", first, b"cd", second, second]
    assert found[1] is first
    assert found[3] is second
    assert list(join_pieces((first, b"a"))) == [first, b"a"]
