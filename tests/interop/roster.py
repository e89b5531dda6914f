"""All clients under test."""

from typing import Any, Final

import pytest

from interop import built, programs
from interop.programs import JAVA, KOHORT, Client

CLIENTS: tuple[Client, ...] = (*programs.CLIENTS, *built.CLIENTS)


def named(name: str) -> Client:
    return next(client for client in CLIENTS if client.name == name)


def _marks(client: Client) -> tuple[pytest.MarkDecorator, ...]:
    """`make test` leaves out the clients that are built first; `make interop` has them all."""
    return (pytest.mark.clients,) if client in (JAVA, *built.CLIENTS) else ()


each_client = pytest.mark.parametrize(
    "client", [pytest.param(client, id=client.name, marks=_marks(client)) for client in CLIENTS]
)
each_client_and_assignor = pytest.mark.parametrize(
    ("client", "assignor"),
    [
        *(
            pytest.param(client, client.assignor, id=client.name, marks=_marks(client))
            for client in CLIENTS
        ),
        pytest.param(KOHORT, "sticky", id="kohort-sticky"),
        pytest.param(JAVA, "range", id="java-range", marks=pytest.mark.clients),
    ],
)
CERTIFICATE: Final = "certificate"
"""What stands beside the names of SASL mechanisms: a client certificate."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", CERTIFICATE)
CANNOT: Final = frozenset(
    ("kcat", each) for each in ("SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
)
"""Logins that a client is not able to, for the reasons that docs/compatibility.md has."""
LOGINS: Final = tuple(
    (name, mechanism)
    for name in (
        "kohort",
        "confluent-kafka",
        "aiokafka",
        "kafka-python",
        "kcat",
        "java",
        "franz-go",
        "kafkajs",
    )
    for mechanism in MECHANISMS
    if (name, mechanism) not in CANNOT
)
"""Clients that authenticate over TLS, and how."""
_IN_GROUPS: Final = (
    ("kohort", "SCRAM-SHA-512"),
    ("confluent-kafka", "OAUTHBEARER"),
    ("aiokafka", "SCRAM-SHA-256"),
    ("kafka-python", "PLAIN"),
    ("kcat", "PLAIN"),
    ("java", "SCRAM-SHA-256"),
    ("java", "OAUTHBEARER"),
    ("franz-go", "SCRAM-SHA-512"),
    ("franz-go", "OAUTHBEARER"),
    ("kafkajs", "SCRAM-SHA-256"),
    ("kafkajs", "OAUTHBEARER"),
)


def _login(name: str, mechanism: str, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(named(name), mechanism, id=f"{name}-{mechanism}", marks=marks)


each_login_in_a_group = pytest.mark.parametrize(
    ("client", "mechanism"), [_login(*each, *_marks(named(each[0]))) for each in _IN_GROUPS]
)
each_other_login = pytest.mark.parametrize(
    ("client", "mechanism"),
    [_login(*each, pytest.mark.clients) for each in LOGINS if each not in _IN_GROUPS],
)
