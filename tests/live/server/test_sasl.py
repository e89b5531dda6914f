"""Clients that authenticate by SASL: ours and those of others, with users as they are made."""

import asyncio
import http.server
import io
import os
import re
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kohort.cli import app
from kohort.client import ClientConfig, Producer
from kohort.client.errors import AuthenticationError
from kohort.client.security import Security
from kohort.security.jaas import PLAIN_LOGIN_MODULE
from kohort.testing.server_process import ServerProcess
from live.server.server import Server, frame
from live.server.test_memory import Client
from security.tokens import jwks, public_jwk, token
from server.certificates import Authority
from turns import BOUND_MS, adjusted_ms

PASSWORD = "s3cret, with a comma=and more"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def bearer_token(subject: str = "alice") -> str:
    now = int(time.time())
    return token(sub=subject, iat=now - 5, exp=now + 600)


class Secured:
    """A server with a SASL listener, and a user."""

    def __init__(self, directory: Path, **settings: str) -> None:
        data = directory / "data"
        keys = directory / "keys.json"
        keys.write_text(jwks(public_jwk("rsa", kid="1")))
        add_user(data, "alice", PASSWORD)
        prefix = "listener.name.sasl_plaintext"
        usual = {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required user_alice="'
            f'{PASSWORD}";',
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri(),
            "sasl.oauthbearer.allow.unverified.audience": "true",
            "sasl.oauthbearer.allow.unverified.issuer": "true",
            "connection.failed.authentication.delay.ms": "0",
            "http.listen": "127.0.0.1:0",
        }
        self.process = ServerProcess(
            *("--dev", "--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--data", str(data)),
            log=directory / "server.log",
            settings=usual | settings,
        )
        self.address = self.process.address

    def metric(self, name: str) -> float:
        """The sum of its series."""
        url = f"http://{self.process.logged_address('http')}/metrics"
        text = urllib.request.urlopen(url).read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M))


def add_user(data: Path, name: str, password: str) -> None:
    file = data.parent / "password"
    file.write_text(password)
    words = ("users", "add", name, "--data-dir", str(data), "--password-file", str(file))
    assert app.run(words) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("sasl"))
    with secured.process:
        yield secured


def produce_with_confluent(address: str, mechanism: str, secret: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    properties: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "message.timeout.ms": 8_000,
    }
    if mechanism == "OAUTHBEARER":
        properties["oauth_cb"] = lambda _: (secret, time.time() + 600)
    else:
        properties |= {"sasl.username": "alice", "sasl.password": secret}
    failures: list[Any] = []
    properties["error_cb"] = failures.append
    producer = confluent_kafka.Producer(properties)
    outcome: list[Any] = []
    producer.produce("orders", b"x", on_delivery=lambda error, _: outcome.append(error))
    while not outcome and not any("uthenticat" in str(each) for each in failures):
        producer.poll(0.1)
    producer.purge()
    if outcome != [None]:
        raise PermissionError(str(failures))


def produce_with_aiokafka(address: str, mechanism: str, secret: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return secret

    async def produce() -> None:
        credentials = (
            {"sasl_oauth_token_provider": Tokens()}
            if mechanism == "OAUTHBEARER"
            else {"sasl_plain_username": "alice", "sasl_plain_password": secret}
        )
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            **credentials,
        )
        try:
            await producer.start()
            await producer.send_and_wait("orders", b"x")
        finally:
            await producer.stop()

    try:
        asyncio.run(produce())
    except aiokafka.errors.KafkaError as error:
        raise PermissionError(str(error)) from error


def produce_with_kafka_python(address: str, mechanism: str, secret: str) -> None:
    kafka = pytest.importorskip("kafka")
    from kafka.errors import KafkaError
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return secret

    credentials = (
        {"sasl_oauth_token_provider": Tokens()}
        if mechanism == "OAUTHBEARER"
        else {"sasl_plain_username": "alice", "sasl_plain_password": secret}
    )
    producer = None
    try:
        producer = kafka.KafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            max_block_ms=8_000,
            **credentials,
        )
        producer.send("orders", b"x").get(20)
    except KafkaError as error:
        raise PermissionError(str(error)) from error
    finally:
        if producer is not None:
            producer.close(0)


def our_security(mechanism: str, secret: str) -> Security:
    credentials: Mapping[str, Any] = (
        {"token": lambda: secret}
        if mechanism == "OAUTHBEARER"
        else {"username": "alice", "password": secret}
    )
    return Security(protocol="SASL_PLAINTEXT", mechanism=mechanism, **credentials)


def produce_with_kohort(address: str, mechanism: str, secret: str) -> None:
    async def produce() -> None:
        config = ClientConfig(bootstrap=address, security=our_security(mechanism, secret))
        async with Producer(config) as producer:
            await (await producer.send("orders", b"x"))

    try:
        asyncio.run(produce())
    except AuthenticationError as error:
        raise PermissionError(str(error)) from error


CLIENTS: tuple[Callable[[str, str, str], None], ...] = (
    produce_with_kohort,
    produce_with_confluent,
    produce_with_aiokafka,
    produce_with_kafka_python,
)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("produce", CLIENTS, ids=lambda function: function.__name__)
def test_clients_authenticate_by_each_mechanism(
    server: Secured, produce: Callable[[str, str, str], None], mechanism: str
) -> None:
    secret = bearer_token() if mechanism == "OAUTHBEARER" else PASSWORD
    produce(server.address, mechanism, secret)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("produce", CLIENTS[:2], ids=lambda function: function.__name__)
def test_clients_with_a_wrong_secret_are_refused(
    server: Secured, produce: Callable[[str, str, str], None], mechanism: str
) -> None:
    wrong = bearer_token(" ") if mechanism == "OAUTHBEARER" else f"{PASSWORD}!"
    before = server.metric("kohort_authentications_failed_total")
    with pytest.raises(PermissionError):
        produce(server.address, mechanism, wrong)
    assert server.metric("kohort_authentications_failed_total") > before
    assert PASSWORD not in "\n".join(server.process.lines)


def test_an_administrator_changes_users_while_the_server_runs(
    server: Secured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    login = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=alice")
    words = [
        *("-b", server.address, "-X", f"sasl.password={PASSWORD}"),
        *(word for each in login for word in ("-X", each)),
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("hers\n"))
    assert app.run(["users", "add", "carol", "--password-stdin", *words]) == 0
    security = Security(
        protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", username="carol", password="hers"
    )

    async def produce() -> None:
        async with Producer(ClientConfig(bootstrap=server.address, security=security)) as producer:
            await (await producer.send("orders", b"x"))

    asyncio.run(produce())
    assert app.run(["users", "remove", "carol", *words]) == 0
    with pytest.raises(AuthenticationError):
        asyncio.run(produce())
    told = "kohort: added user carol\nkohort: removed user carol\n"
    assert capsys.readouterr().err == told


def test_secrets_are_shown_nowhere(server: Secured) -> None:
    import confluent_kafka.admin as admin

    client = admin.AdminClient(
        {
            "bootstrap.servers": server.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }
    )
    resource = admin.ConfigResource("broker", "0")
    (described,) = client.describe_configs([resource]).values()
    configs = described.result(10)
    setting = configs["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
    assert (setting.is_sensitive, setting.value) == (True, None)
    assert all(PASSWORD not in str(each.value) for each in configs.values())


def test_a_session_is_renewed_while_its_client_works(tmp_path: Path) -> None:
    secured = Secured(tmp_path, **{"connections.max.reauth.ms": "1500"})

    async def produce() -> None:
        security = our_security("SCRAM-SHA-512", PASSWORD)
        config = ClientConfig(bootstrap=secured.address, security=security)
        async with Producer(config) as producer:
            while secured.metric("kohort_authentications_total") < 6:
                await (await producer.send("orders", b"x"))
                await asyncio.sleep(0.05)

    with secured.process:
        asyncio.run(produce())
        assert secured.metric("kohort_authentications_failed_total") == 0
        assert secured.metric("kohort_sessions_expired_total") == 0


class KeysByHttps:
    """A web server of an issuer, with TLS."""

    def __init__(self, authority: Authority) -> None:
        content = jwks(public_jwk("rsa", kid="1")).encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue("issuer.pem"))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_client_with_tls_and_a_token_whose_keys_come_by_https(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issuer = KeysByHttps(authority)
    certificate = authority.issue("server.pem")
    server = ServerProcess(
        *("--dev", "--memory", "--listen", "SASL_SSL://127.0.0.1:0"),
        log=tmp_path / "server.log",
        settings={
            "ssl.keystore.location": str(certificate),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": issuer.url,
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": issuer.url,
            "sasl.oauthbearer.allow.unverified.audience": "true",
            "sasl.oauthbearer.allow.unverified.issuer": "true",
        },
        environment=dict(os.environ) | {"SSL_CERT_FILE": str(authority.file)},
    )

    async def produce() -> None:
        security = Security(
            protocol="SASL_SSL",
            ssl_cafile=str(authority.file),
            mechanism="OAUTHBEARER",
            token=bearer_token,
        )
        async with Producer(ClientConfig(bootstrap=server.address, security=security)) as producer:
            await (await producer.send("orders", b"x"))

    with server:
        asyncio.run(produce())
    issuer.close()


def test_a_flood_of_failing_logins_holds_nobody_up(tmp_path: Path) -> None:
    """The costliest messages of connections that fail, and heartbeats of one that has logged in."""
    secured = Secured(tmp_path, **{"max.failed.authentications.per.ip": "1000000"})
    with secured.process:
        server = Server(secured.process)
        client = logged_in(server)
        heartbeat = frame("heartbeat", 4, group_id="g", generation_id=1, member_id="m")
        client.ask(heartbeat)
        before_mb, ended = server.resident_mb, threading.Event()

        def flood() -> None:
            bearer = b"n,,\x01" + b"a=b\x01" * 130_000 + b"auth=Bearer x\x01\x01"
            while not ended.is_set():
                attacker = Client(server)
                attacker.ask(frame("sasl_handshake", 1, mechanism="OAUTHBEARER"))
                attacker.ask(frame("sasl_authenticate", 2, auth_bytes=bearer))
                attacker.socket.close()

        attack = threading.Thread(target=flood)
        attack.start()
        worst = 0.0
        while secured.metric("kohort_authentications_failed_total") < 50:
            before = server.cpu_s
            client.ask(heartbeat)
            worst = max(worst, server.cpu_s - before)
        ended.set()
        attack.join()
        worst_ms = adjusted_ms(worst)
        print(f"{worst_ms:.0f} ms, {server.resident_mb - before_mb:.0f} MB")
        assert worst_ms < BOUND_MS
        assert server.resident_mb - before_mb < 60


def logged_in(server: Server) -> Client:
    client = Client(server)
    client.ask(frame("sasl_handshake", 1, mechanism="PLAIN"))
    client.ask(frame("sasl_authenticate", 2, auth_bytes=f"\0alice\0{PASSWORD}".encode()))
    return client
