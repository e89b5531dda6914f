"""Clients and tools that authenticate by SASL over TLS at a server with an authorizer.

Our own commands do the same at an Apache Kafka.
"""

import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from cli.running import Run, runner
from interop.conftest import need
from interop.processes import PATIENCE_S, Process, finish, write_lines
from interop.programs import HEARTBEAT_MS, SESSION_MS, Client
from interop.roster import CERTIFICATE, each_login_in_a_group, each_other_login
from interop.timeline import Records
from interop.tools import CONFIGS, TOPICS, Tools
from kohort.cli import app
from kohort.testing.server_process import ServerProcess
from peers.kafka import QUICK_START, Kafka, free_port, missing_tools
from security.tokens import jwks, public_jwk, token
from waiting import wait_until

pytestmark = pytest.mark.interop

ACLS = "org.apache.kafka.tools.AclCommand"
MODULES = "org.apache.kafka.common.security"
PASSWORD = "s3cret"
PLAIN_USERS = f"""{MODULES}.plain.PlainLoginModule required \
user_admin="{PASSWORD}" user_alice="{PASSWORD}";"""
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_USERS,
}
_numbers = count(1)


class Secured:
    """Address and files of a server; `alice` may use topics and groups that begin with `shop`."""

    def __init__(self, address: str, directory: Path, tls_address: str = "") -> None:
        """`tls_address` is for clients with a certificate."""
        self.address = address
        self.tls_address = tls_address
        self.cafile = directory / "certs" / "ca.pem"
        self.certificate = directory / "certs" / "client.pem"
        self._directory = directory
        self.admin = self.properties("PLAIN", "admin")

    def properties(self, mechanism: str, user: str = "alice", password: str = PASSWORD) -> Path:
        """A file of properties as Java has them, with the login of a user."""
        protocol = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
        if mechanism == CERTIFICATE:
            protocol = {"security.protocol": "SSL"}
            login = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.certificate),
            }
        elif mechanism == "OAUTHBEARER":
            file = self._directory / "token"
            file.write_text(bearer_token())
            login = {
                "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
                "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer."
                "OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            }
        else:
            module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            login = {
                "sasl.jaas.config": f"{MODULES}.{module}LoginModule required "
                f'username="{user}" password="{password}";'
            }
        properties = login | protocol | {
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.cafile),
        }  # fmt: skip
        file = self._directory / f"{user}-{next(_numbers)}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return file

    def login(self, mechanism: str) -> dict[str, str]:
        """How a client's program authenticates as alice."""
        how = (
            {"certificate": str(self.certificate)}
            if mechanism == CERTIFICATE
            else {
                "mechanism": mechanism,
                "username": "alice",
                "secret": bearer_token() if mechanism == "OAUTHBEARER" else PASSWORD,
            }
        )
        return how | {"cafile": str(self.cafile), "security": str(self.properties(mechanism))}

    def new_topic(self) -> str:
        """One that alice may use."""
        topic = f"shop-{next(_numbers)}"
        at = ("-b", self.address, "--security", str(self.admin))
        assert app.run(("topics", "create", "--topic", topic, *at)) == 0
        return topic

    def allow_alice(self) -> None:
        """Create her, and allow her what she may."""
        always = ("-b", self.address, "--security", str(self.admin))
        secret = self._directory / "password"
        secret.write_text(PASSWORD)
        assert app.run(["users", "add", "alice", "--password-file", str(secret), *always]) == 0
        allowed = ("--topic", "shop", "--group", "shop", "--resource-pattern-type", "prefixed")
        words = ("--allow-principal", "User:alice", "--producer", "--consumer", *allowed)
        assert app.run(["acls", "add", *words, *always]) == 0


def bearer_token() -> str:
    now = int(time.time())
    return token(sub="alice", iat=now - 5, exp=now + 600)


def made_certificates(directory: Path) -> dict[str, str]:
    """The settings of a server whose keys `kohort certs dev` makes."""
    assert app.run(["certs", "dev", "--client", "alice", str(directory / "certs")]) == 0
    location = str(directory / "certs" / "server.pem")
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": location}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """`kohort serve`."""
    directory = tmp_path_factory.mktemp("secured")
    keys = directory / "keys.json"
    keys.write_text(jwks(public_jwk("rsa", kid="1")))
    settings = made_certificates(directory) | AUTHORIZED | {
        "super.users": "User:admin",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, "OAUTHBEARER")),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.truststore.location": str(directory / "certs" / "ca.pem"),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
    }  # fmt: skip
    server = ServerProcess(
        *("--dev", "--memory", "--listen", "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0"),
        log=directory / "server.log",
        settings=settings,
    )
    with server:
        further = re.search(r'"SSL://([^"]+)"', server.line("listening"))
        assert further is not None
        found = Secured(server.address, directory, tls_address=further[1])
        found.allow_alice()
        yield found


@pytest.fixture(scope="module")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if reason := missing_tools():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("secured-kafka")
    port = free_port(neighbours=2)
    own, address = f"PLAINTEXT://127.0.0.1:{port}", f"127.0.0.1:{port + 2}"
    settings = made_certificates(directory) | AUTHORIZED | {
        "super.users": "User:admin;User:ANONYMOUS",
        "listeners": f"{own},CONTROLLER://127.0.0.1:{port + 1},SASL_SSL://{address}",
        "advertised.listeners": f"{own},SASL_SSL://{address}",
        "listener.security.protocol.map":
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM)),
    } | {
        f"listener.name.sasl_ssl.{mechanism.lower()}.sasl.jaas.config":
            f"{MODULES}.scram.ScramLoginModule required;"
        for mechanism in SCRAM
    }  # fmt: skip
    with Kafka.start(port, settings, heap="512m", flags=QUICK_START):
        found = Secured(address, directory)
        found.allow_alice()
        yield found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts a client's process, which ends with the test."""
    started: list[Process] = []

    def start(client: Client, mode: str, options: dict[str, str], values: list[str]) -> Process:
        def listen(line: str) -> None:
            if isinstance(event := client.hears(mode, line), Records):
                values.extend(str(value) for value in event.values)

        log = tmp_path / f"{mode}.log"
        command = client.command(mode, options)
        started.append(Process(mode, command, log, listen, client.merged_output))
        return started[-1]

    yield start
    for process in started:
        if process.popen.poll() is None:
            process.kill()


@each_login_in_a_group
def test_a_client_produces_and_consumes(
    client: Client, mechanism: str, secured: Secured, start: Callable[..., Process]
) -> None:
    need(client)
    topic = secured.new_topic()
    options = {"bootstrap": secured.address, **secured.login(mechanism)}
    producer = start(client, "produce", options | {"topic": topic, "codec": "none"}, [])
    sent = [f"record-{number}" for number in range(20)]
    write_lines(producer, [("key", value) for value in sent])
    finish(producer)
    received: list[str] = []
    consuming = {
        "topics": topic, "group": topic, "client": "alice", "assignor": client.assignor,
        "session": str(SESSION_MS), "heartbeat": str(HEARTBEAT_MS),
    }  # fmt: skip
    consumer = start(client, "consume", options | consuming, received)
    wait_until(lambda: received == sent, consumer.tail)
    consumer.ask_to_leave()
    assert consumer.wait(PATIENCE_S) in (0, 143), consumer.tail()


@each_other_login
def test_a_client_produces(
    client: Client, mechanism: str, secured: Secured, start: Callable[..., Process]
) -> None:
    """The ways of a client that no group has tried; the program ends with 0 if all is written."""
    need(client)
    address = secured.tls_address if mechanism == CERTIFICATE else secured.address
    where = {"bootstrap": address, "topic": secured.new_topic(), "codec": "none"}
    producer = start(client, "produce", where | secured.login(mechanism), [])
    write_lines(producer, [("key", "value")])
    finish(producer)


# --- Apache Kafka's tools ---


@pytest.mark.clients
def test_tools_of_administrators(tools: Tools, secured: Secured) -> None:
    """With `--command-config`, by a super user and by a user who may do less."""

    def run(main_class: str, *flags: str, by: Path) -> str:
        connected = ("--bootstrap-server", secured.address, "--command-config", str(by))
        return tools.run(main_class, *connected, *flags)

    topic = f"tools-{next(_numbers)}"
    admin, bob = secured.admin, ("--entity-type", "users", "--entity-name", "bob")
    assert f"Created topic {topic}" in run(TOPICS, "--create", "--topic", topic, by=admin)
    alice = secured.properties("SCRAM-SHA-512")
    assert topic in run(TOPICS, "--list", by=admin)
    assert topic not in run(TOPICS, "--list", by=alice)
    password = "SCRAM-SHA-256=[iterations=4096,password=his]"
    for config in (password, "producer_byte_rate=5000"):
        assert "Completed" in run(CONFIGS, "--alter", *bob, "--add-config", config, by=admin)
    described = run(CONFIGS, "--describe", *bob, by=admin)
    assert "producer_byte_rate=5000" in described
    assert "iterations=4096" in described
    quota = ("--entity-type", "clients", "--entity-name", "etl")
    run(CONFIGS, "--alter", *quota, "--add-config", "consumer_byte_rate=7000", by=admin)
    assert "consumer_byte_rate=7000" in run(CONFIGS, "--describe", *quota, by=admin)
    entry = ("--topic", topic, "--allow-principal", "User:bob", "--operation", "Describe")
    assert "principal=User:bob" in run(ACLS, "--add", *entry, by=admin)
    his = secured.properties("SCRAM-SHA-256", "bob", "his")
    assert topic in run(TOPICS, "--list", by=his)
    assert "operation=DESCRIBE" in run(ACLS, "--list", "--topic", topic, by=admin)
    assert "ClusterAuthorizationException" in run(ACLS, "--list", by=his)
    run(ACLS, "--remove", "--force", *entry, by=admin)
    assert topic not in run(TOPICS, "--list", by=his)


# --- our commands ---


@pytest.fixture(
    params=["secured", pytest.param("secured_kafka", marks=pytest.mark.clients)],
    ids=["kohort", "kafka"],
)
def any_secured(request: pytest.FixtureRequest) -> Secured:
    found: Secured = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def run(any_secured: Secured, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command at the server, with all the time it wants."""
    return runner(capfd, "-b", any_secured.address, "--timeout", "100000")


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_our_commands_log_in_by_each_mechanism(
    any_secured: Secured,
    run: Run,
    mechanism: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    topic = f"shop-{next(_numbers)}"
    monkeypatch.setenv("KOHORT_SECURITY", str(any_secured.properties(mechanism)))
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    assert run("produce", "-t", topic, "-l", str(lines)).exit_code == 0
    consumed = run("consume", "-t", topic, "-o", "beginning", "-e")
    assert (consumed.exit_code, consumed.output.split()) == (0, ["one", "two"])
    denied = run("consume", "-t", "closed", "-o", "beginning", "-e")
    assert denied.exit_code == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in denied.stderr


class TestErrorsThatAreNotRetried:
    """The last line says what to do; on a busy machine there are attempts before that."""

    def said(self, run: Run, properties: Path, *words: str) -> str:
        done = run("topics", "list", "--security", str(properties), *words)
        assert done.exit_code == 1
        return done.stderr.splitlines()[-1]

    @pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
    def test_a_wrong_password_is_not_retried(
        self, any_secured: Secured, run: Run, mechanism: str
    ) -> None:
        wrong = any_secured.properties(mechanism, password="wrong")
        assert "check username 'alice' and its password" in self.said(run, wrong)

    def test_an_unknown_user_is_not_retried(self, any_secured: Secured, run: Run) -> None:
        mallory = any_secured.properties("SCRAM-SHA-256", "mallory")
        assert "check username 'mallory' and its password" in self.said(run, mallory)

    def test_an_authority_that_is_not_trusted(
        self, any_secured: Secured, run: Run, tmp_path: Path
    ) -> None:
        made_certificates(tmp_path)
        other = f"ssl.truststore.location={tmp_path / 'certs' / 'ca.pem'}"
        assert "trust its authority" in self.said(run, any_secured.admin, "-X", other)
