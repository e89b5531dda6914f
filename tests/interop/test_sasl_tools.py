"""Apache Kafka's own tools against a server with SASL: users, logins, and sessions that end."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.tools import CONFIGS, TOPICS, Tools
from kohort.security.jaas import PLAIN_LOGIN_MODULE
from kohort.testing.server_process import ServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.clients]
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN_LOGIN_MODULE} required "
    'user_admin="admin-secret";',
    "connections.max.reauth.ms": "2000",
    "http.listen": "127.0.0.1:0",
}
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class Secured:
    """A server with SASL, and Kafka's tools with the credentials of a user."""

    def __init__(self, tools: Tools, directory: Path) -> None:
        self._tools = tools
        self._directory = directory
        listen = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0")
        self.server = ServerProcess("--memory", *listen, log=directory / "log", settings=SETTINGS)

    def run(self, main_class: str, *flags: str, user: str, mechanism: str) -> str:
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        config = self._directory / f"{user}-{mechanism}.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
            f'username="{user}" password="{user}-secret";\n'
        )
        option = "--command-config" if main_class != CONSUMER else "--consumer.config"
        address = ("--bootstrap-server", self.server.address)
        return self._tools.run(main_class, *address, option, str(config), *flags)

    def metric(self, name: str) -> float:
        url = f"http://{self.server.logged_address('http')}/metrics"
        found = re.search(rf"^{name} (\S+)$", urllib.request.urlopen(url).read().decode(), re.M)
        assert found is not None
        return float(found[1])


@pytest.fixture
def secured(tools: Tools, tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tools, tmp_path)
    yield made
    made.server.kill()


def test_users_of_kafka_configs(secured: Secured) -> None:
    users = ("--entity-type", "users", "--entity-name", "bob")
    admin = {"user": "admin", "mechanism": "PLAIN"}
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        added = f"{mechanism}=[iterations=8192,password=bob-secret]"
        printed = secured.run(CONFIGS, "--alter", *users, "--add-config", added, **admin)
        assert "Completed updating config for user bob" in printed
        created = secured.run(
            TOPICS, "--create", "--topic", f"by-{mechanism}", user="bob", mechanism=mechanism
        )
        assert f"Created topic by-{mechanism}" in created
    described = secured.run(CONFIGS, "--describe", *users, **admin)
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=8192" in described
    removed = ("--alter", *users, "--delete-config", "SCRAM-SHA-256")
    assert "Completed updating config for user bob" in secured.run(CONFIGS, *removed, **admin)
    refused = secured.run(TOPICS, "--list", user="bob", mechanism="SCRAM-SHA-256")
    assert "by-SCRAM" not in refused
    assert secured.metric("kohort_authentications_failed_total") > 0


def test_a_consumer_renews_its_sessions(secured: Secured) -> None:
    admin = {"user": "admin", "mechanism": "PLAIN"}
    secured.run(TOPICS, "--create", "--topic", "orders", **admin)
    logins = secured.metric("kohort_authentications_total")
    connections = secured.metric("kohort_connections_accepted_total")
    secured.run(CONSUMER, "--topic", "orders", "--timeout-ms", "7000", **admin)
    renewed = secured.metric("kohort_authentications_total") - logins
    # Each connection begins with one; what is more was on a connection that had one. (How many
    # sessions end says nothing: a Fetch that waits behind a long poll may meet the end of its own.)
    assert renewed - (secured.metric("kohort_connections_accepted_total") - connections) > 1
    assert secured.metric("kohort_authentications_failed_total") == 0
    assert secured.metric("kohort_requests_failed_total") == 0
