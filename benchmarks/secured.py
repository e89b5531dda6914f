"""The security of measured servers: certificates, listeners, a user and ACLs.

A server has a listener of each of PLAINTEXT, SSL and SASL_SSL, with the certificate of `kohort
certs dev`. With ACLs, anonymous clients and the user may use topics and groups whose names begin
with "bench", and `OTHER_ACLS` others have ACLs on topics and on groups of their own.
"""

import atexit
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks import tools

USER = "bench"
PASSWORD = "bench-secret"
ITERATIONS = 4096
OTHER_ACLS = 100
"""On topics, and as many on groups."""
LISTENERS = 3
PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Listeners:
    """Ports of a server, the first one without encryption."""

    port: int
    after_first: int = 0
    """Ports between the first one and the others."""

    @property
    def tls_port(self) -> int:
        return self.port + self.after_first + 1

    @property
    def sasl_port(self) -> int:
        return self.tls_port + 1

    @property
    def addresses(self) -> str:
        """As the setting `listeners`."""
        ports = {"PLAINTEXT": self.port, "SSL": self.tls_port, "SASL_SSL": self.sasl_port}
        return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


@cache
def certificates() -> Path:
    """A directory with `ca.pem` and `server.pem`, made once and deleted with the process."""
    directory = TemporaryDirectory(prefix="kohort-bench-")
    atexit.register(directory.cleanup)
    command = [sys.executable, "-m", "kohort", "certs", "dev", directory.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tools.ROOT)
    if done.returncode:
        raise tools.MissingError(f"no certificates: {done.stderr}")
    return Path(directory.name)


def settings(*, has_acls: bool) -> dict[str, str]:
    """Settings of a server, the same for Kohort and Apache Kafka, without its listeners."""
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    common = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates() / "server.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
    }
    acls = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Clients make the user and the ACLs, when there are none.
        "allow.everyone.if.no.acl.found": "true",
    }
    return common | acls if has_acls else common


def prepare(address: str, *, has_acls: bool) -> None:
    """Make the user, and the ACLs. A node that has just started may be asked again."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            _prepare(address, has_acls=has_acls)
            return
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise tools.MissingError(f"no user or ACLs: {error}") from error
            time.sleep(0.2)


def _prepare(address: str, *, has_acls: bool) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    user = UserScramCredentialUpsertion(USER, credentials, PASSWORD.encode())
    for done in admin.alter_user_scram_credentials([user]).values():
        done.result(LIMIT_S)
    if has_acls:
        for done in admin.create_acls(_acls()).values():
            done.result(LIMIT_S)


def _acls() -> list[AclBinding]:
    owners = ("User:ANONYMOUS", f"User:{USER}")
    kinds = (ResourceType.TOPIC, ResourceType.GROUP)
    own = [
        _allow(kind, "bench", ResourcePatternType.PREFIXED, owner)
        for kind in kinds
        for owner in owners
    ]
    others = [
        _allow(kind, f"other-{number}", ResourcePatternType.LITERAL, f"User:user-{number}")
        for kind in kinds
        for number in range(OTHER_ACLS)
    ]
    return own + others


def _allow(
    kind: ResourceType, name: str, pattern: ResourcePatternType, principal: str
) -> AclBinding:
    operation, permission = AclOperation.ALL, AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)
