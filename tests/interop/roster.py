"""All clients under test."""

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
each_login = pytest.mark.parametrize(
    ("client", "mechanism"),
    [
        pytest.param(named(name), mechanism, id=f"{name}-{mechanism}", marks=_marks(named(name)))
        for name, mechanism in (
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
    ],
)
"""SASL mechanisms of clients; `tests/live` has more of those in Python."""
