"""Apache Kafka with TLS, SASL and an authorizer, through Spark."""

import base64
import hashlib
import json
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

from client.conftest import certificate
from peers.kafka import QUICK_START, Kafka, free_port, missing_tools
from spark.servers import SETTINGS
from spark.streams import Stream
from spark.topics import Topics

__all__ = ["certificate"]
pytestmark = pytest.mark.clients

_numbers = count()
PASSWORD = "s3cret"
"""Of key stores."""
QUOTED = 'it\'s "7"; \\'
"""A password that JAAS needs quotes and backslashes for."""
ITERATIONS = 4096
SCRAM_SHA_512 = 2
TOPIC, GROUP = 2, 3
READ, WRITE, DESCRIBE = 3, 4, 8
ALLOW, LITERAL, PREFIXED = 3, 3, 4
MODULE = "org.apache.kafka.common.security"


class Secured(Topics):
    """A node whose plain listener is the administrator's; the others are for users."""

    def __init__(self, node, tls, sasl, oauth):
        super().__init__(node.address)
        self.tls, self.sasl, self.oauth = tls, sasl, oauth
        """Addresses of the listeners."""

    def allow(self, user, kind, name, pattern, *operations):
        """Permit operations on what is named."""
        entries = [
            {"resource_type": kind, "resource_name": name, "resource_pattern_type": pattern,
             "principal": f"User:{user}", "host": "*", "operation": each, "permission_type": ALLOW}
            for each in operations
        ]  # fmt: skip
        self._controlled("create_acls", creations=entries)

    def withdraw(self, user, topic):
        """Delete what `allow` made for this name."""
        entry = {
            "resource_type_filter": TOPIC, "resource_name_filter": topic,
            "pattern_type_filter": LITERAL, "principal_filter": f"User:{user}",
            "host_filter": None, "operation": 1, "permission_type": 1,
        }  # fmt: skip
        self._controlled("delete_acls", filters=[entry])

    def add_user(self, name, password):
        """A user of SCRAM-SHA-512."""
        salted = hashlib.pbkdf2_hmac("sha512", password.encode(), b"salt", ITERATIONS)
        user = {"name": name, "mechanism": SCRAM_SHA_512, "iterations": ITERATIONS,
                "salt": b"salt", "salted_password": salted}  # fmt: skip
        self._controlled("alter_user_scram_credentials", upsertions=[user], deletions=[])

    def _controlled(self, api, **fields):
        async def ask(cluster):
            node = (await cluster.metadata(())).controller_id
            answer = await (await cluster.connection(node)).send(api, **fields)
            results = getattr(answer, "results", None) or answer.filter_results
            assert not any(each.error_code for each in results), answer

        self._run(ask)


@pytest.fixture(scope="module")
def kafka(certificate, tmp_path_factory):
    if reason := missing_tools():
        pytest.skip(reason)
    port = free_port(neighbours=4)
    addresses = [f"127.0.0.1:{port + at}" for at in range(5)]
    names = ("PLAINTEXT", "CONTROLLER", "TLS", "SASL", "OAUTH")
    identity = tmp_path_factory.mktemp("identity") / "broker.pem"
    identity.write_text("".join(path.read_text() for path in reversed(certificate)))
    settings = {
        "listeners": ",".join(map("{}://{}".format, names, addresses)),
        "advertised.listeners": ",".join(
            f"{name}://{address}"
            for name, address in zip(names, addresses, strict=True)
            if name != "CONTROLLER"
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_SSL,OAUTH:SASL_PLAINTEXT"
        ),
        "ssl.keystore.type": "PEM", "ssl.keystore.location": identity,
        "ssl.truststore.type": "PEM", "ssl.truststore.location": certificate[0],
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config":
            f'{MODULE}.plain.PlainLoginModule required user_ann="plain";',
        "listener.name.sasl.scram-sha-512.sasl.jaas.config":
            f"{MODULE}.scram.ScramLoginModule required;",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config":
            f"{MODULE}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=kohort",
    }  # fmt: skip
    given = SETTINGS | {name: str(value) for name, value in settings.items()}
    with Kafka.start(port, given, heap="512m", flags=QUICK_START) as node:
        found = Secured(node, *addresses[2:])
        found.add_user("ann", QUOTED)
        found.allow("ann", TOPIC, "open", PREFIXED, READ, WRITE, DESCRIBE)
        found.allow("ann", GROUP, "open", PREFIXED, READ)
        yield found


@pytest.fixture
def open_topic(kafka):
    """One that user ann may read and write."""
    name = f"open-{next(_numbers)}"
    kafka.create(name)
    return name


# --- what clients are configured with ---


def keytool(*arguments):
    command = ["keytool", *map(str, arguments), "-noprompt"]
    subprocess.run(command, check=True, capture_output=True)


def stores(kafka, certificate, directory, kind):
    """Key stores as keytool writes them."""
    cert, key = certificate
    own, trust = directory / "own", directory / "trust"
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", cert, "-inkey", key, "-out", directory / "pair",
         "-passout", f"pass:{PASSWORD}"],
        check=True, capture_output=True,
    )  # fmt: skip
    keytool(
        "-importkeystore", "-srckeystore", directory / "pair", "-srcstoretype", "PKCS12",
        "-srcstorepass", PASSWORD, "-destkeystore", own, "-deststoretype", kind,
        "-deststorepass", PASSWORD,
    )  # fmt: skip
    keytool(
        "-importcert", "-alias", "ca", "-file", cert, "-keystore", trust, "-storetype", kind,
        "-storepass", PASSWORD,
    )  # fmt: skip
    return kafka.tls, {
        "security.protocol": "SSL",
        "ssl.truststore.location": trust, "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": own, "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }  # fmt: skip


def jks(kafka, certificate, directory):
    return stores(kafka, certificate, directory, "JKS")


def pkcs12(kafka, certificate, directory):
    return stores(kafka, certificate, directory, "PKCS12")


def pem_text(kafka, certificate, _directory):
    cert, key = (" ".join(path.read_text().splitlines()) for path in certificate)
    return kafka.tls, {
        "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM",
        "ssl.truststore.certificates": cert, "ssl.keystore.certificate.chain": cert,
        "ssl.keystore.key": key,
    }  # fmt: skip


def sasl(certificate, mechanism, module, password):
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism,
        "ssl.truststore.location": certificate[0], "ssl.truststore.type": "PEM",
        "sasl.jaas.config": f'{MODULE}.{module} required username="ann" password="{escaped}";',
    }  # fmt: skip


def plain(kafka, certificate, _directory):
    return kafka.sasl, sasl(certificate, "PLAIN", "plain.PlainLoginModule", "plain")


def scram(kafka, certificate, _directory):
    return kafka.sasl, sasl(certificate, "SCRAM-SHA-512", "scram.ScramLoginModule", QUOTED)


def oauthbearer(kafka, _certificate, _directory):
    return kafka.oauth, {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "{endpoint}",
        "sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required "
        "clientId='ann' clientSecret='secret';",
    }  # fmt: skip


@contextmanager
def token_endpoint():
    """Gives unsecured tokens (RFC 7515, `alg` none) of the client; its URL."""

    def encoded(claims):
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            user = base64.b64decode(self.headers["Authorization"].split()[1]).decode()
            claims = {"sub": user.partition(":")[0], "iat": time.time(), "exp": time.time() + 3600}
            token = f"{encoded({'alg': 'none'})}.{encoded(claims)}."
            body = json.dumps({"access_token": token, "expires_in": 3600}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def connect(kafka, certificate, tmp_path):
    """Options of a user, by one of the functions above."""
    with token_endpoint() as endpoint:

        def options(how, **changed):
            address, given = how(kafka, certificate, tmp_path)
            given = {name: str(value).format(endpoint=endpoint) for name, value in given.items()}
            given |= {"bootstrap.servers": address, "default.api.timeout.ms": "5000"} | changed
            return {f"kafka.{name}": value for name, value in given.items()}

        yield options


def read(session, options):
    return session.read.format("kohort").options(**options).load()


def write(session, options):
    rows = session.range(3).selectExpr("cast(id as string) value")
    rows.write.format("kohort").options(**options).mode("append").save()


def streamed(session, directory, options):
    """A run of a stream; its values."""
    reading = Stream(
        session,
        options["kafka.bootstrap.servers"],
        directory,
        startingOffsets="earliest",
        **options,
    )
    reading.run()
    return [row.value for row in reading.rows()]


@pytest.mark.parametrize("how", [jks, pkcs12, pem_text, plain, scram, oauthbearer])
def test_reads_and_writes(session, connect, open_topic, how):
    options = connect(how)
    write(session, options | {"topic": open_topic})
    assert read(session, options | {"subscribe": open_topic}).count() == 3


def escaped(value):
    """As in a properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def test_a_file_has_the_secrets_and_no_plan_shows_them(
    session, connect, open_topic, tmp_path, capsys
):
    options = connect(scram)
    hidden = {
        name for name in options if name.startswith(("kafka.security", "kafka.sasl", "kafka.ssl"))
    }
    file = tmp_path / "client.properties"
    file.write_text(
        "".join(
            f"{name.removeprefix('kafka.')}={escaped(options[name])}\n" for name in sorted(hidden)
        )
    )
    by_file = {name: options[name] for name in options.keys() - hidden} | {"security": str(file)}
    write(session, by_file | {"topic": open_topic})
    for given in (by_file, options):
        found = read(session, given | {"subscribe": open_topic})
        assert found.count() == 3
        found.explain(True)
        plan = capsys.readouterr().out
        assert "Physical Plan" in plan
        assert "password" not in plan


@pytest.mark.parametrize("how", [jks, scram, oauthbearer])
def test_members_read_and_commit_with_every_kind_of_security(
    session, connect, kafka, open_topic, tmp_path, how
):
    kafka.fill(open_topic, {0: [b"a", b"b"]})
    options = connect(how) | {"subscribe": open_topic, "group.id": open_topic}
    assert streamed(session, tmp_path, options) == [b"a", b"b"]
    assert kafka.committed(open_topic) == {open_topic: {0: 2}}


class TestErrorsNameTheAddressAndTheCause:
    def said(self, session, options):
        with pytest.raises(Exception, match="no broker could be reached") as raised:
            read(session, options | {"subscribe": "open"}).count()
        cause = str(raised.value).splitlines()[0]
        assert options["kafka.bootstrap.servers"] in cause
        return cause

    def test_a_wrong_password(self, session, connect):
        line = "x required username=ann password=wrong;"
        told = self.said(session, connect(plain, **{"sasl.jaas.config": line}))
        assert "PLAIN: Authentication failed: Invalid username or password" in told

    def test_an_error_of_tls_to_a_plain_port_says_so(self, session, connect, kafka):
        told = self.said(session, connect(pem_text, **{"bootstrap.servers": kafka.address}))
        assert "TLS handshake; is this a listener without TLS" in told

    def test_a_tls_port_without_tls(self, session, kafka):
        options = {
            "kafka.bootstrap.servers": kafka.tls,
            "kafka.default.api.timeout.ms": "3000",
        }
        assert "need TLS" in self.said(session, options)


class TestPermissions:
    """What the authorizer denies is neither missing nor deleted."""

    @pytest.fixture
    def closed(self, kafka):
        name = f"closed-{next(_numbers)}"
        kafka.create(name)
        kafka.fill(name, {0: [b"a"]})
        return name

    @pytest.mark.parametrize("group", [{}, {"group.id": "open"}])
    def test_a_stream_of_a_denied_topic(self, session, connect, closed, tmp_path, group):
        options = connect(scram) | {"subscribe": closed} | group
        with pytest.raises(Exception, match=f"TOPIC_AUTHORIZATION_FAILED: topic {closed}"):
            streamed(session, tmp_path, options)

    def test_a_batch_of_a_denied_topic(self, session, connect, closed):
        options = connect(scram) | {"subscribe": closed}
        with pytest.raises(Exception, match=f"TOPIC_AUTHORIZATION_FAILED: topic {closed}"):
            read(session, options).count()

    def test_a_write_to_a_denied_topic(self, session, connect, closed):
        options = connect(scram) | {"topic": closed}
        with pytest.raises(Exception, match=f"TOPIC_AUTHORIZATION_FAILED: topic {closed}"):
            write(session, options)

    def test_a_group_that_is_denied(self, session, connect, open_topic, tmp_path):
        options = connect(scram) | {"subscribe": open_topic, "group.id": "closed"}
        with pytest.raises(Exception, match="GROUP_AUTHORIZATION_FAILED"):
            streamed(session, tmp_path, options)

    @pytest.mark.parametrize("fail", ["true", "false"])
    def test_a_permission_that_is_withdrawn_is_no_deletion(
        self, session, connect, kafka, closed, tmp_path, fail
    ):
        """Also with a pattern, for which Kafka lists only topics that the user may describe."""
        kafka.allow("ann", TOPIC, closed, LITERAL, READ, DESCRIBE)
        options = connect(scram) | {"subscribePattern": f"{closed}.*", "failOnDataLoss": fail}
        assert streamed(session, tmp_path, options) == [b"a"]
        kafka.withdraw("ann", closed)
        with pytest.raises(Exception, match=f"TOPIC_AUTHORIZATION_FAILED: topic {closed}"):
            streamed(session, tmp_path, options)
        kafka.allow("ann", TOPIC, closed, LITERAL, READ, DESCRIBE)
        kafka.fill(closed, {0: [b"b"]})
        assert streamed(session, tmp_path, options) == [b"a", b"b"]
