"""A pooler between servers and PostgreSQL, as docs/operations.md has it."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from kohort.client import Producer
from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.server.metadata import read_logged_partitions
from kohort.storage.postgres.check import check
from kohort.storage.postgres.logs.copy import PostgresTarget
from kohort.storage.postgres.pooler import has_own_session
from peers.pgbouncer import pooled
from peers.postgres import Postgres
from server.postgres_nodes_bench import PARTITIONS, Nodes

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.fixture
def role(postgres: Postgres, database: str) -> Iterator[str]:
    """A role whose schema is a new one."""
    schema = database.rpartition("=")[2]
    role = f"pooled_{schema}"
    postgres.execute(
        f"create role {role} login",
        f"alter role {role} set search_path = {schema}",
        f"grant usage, create on schema {schema} to {role}",
    )
    yield role
    postgres.execute(f"drop owned by {role}", f"drop role {role}")


@pytest.fixture
def settings() -> str:
    """The line for pgbouncer.ini in docs/operations.md."""
    (found,) = re.findall(r"`(ignore_startup_parameters = [^`]*)`", OPERATIONS.read_text())
    return " ".join(found.split())


async def test_nodes_serve_by_a_pooler_of_sessions(
    postgres: Postgres, role: str, settings: str
) -> None:
    with pooled(postgres, role, "session", settings) as url:
        async with Nodes(url) as nodes:
            await nodes.start(1, 2)
            await nodes.create()
            await nodes.led_by(1, 2)
            async with Producer(nodes.client) as producer:
                for partition in range(PARTITIONS):
                    await producer.send("orders", b"first", partition=partition)
            await nodes.stop(1)
            await nodes.led_by(2)


@pytest.mark.parametrize(
    ("pool_mode", "reason"),
    [("transaction", "set pool_mode=session"), ("statement", "statement pooling mode")],
)
async def test_other_poolers_are_refused(
    postgres: Postgres, role: str, settings: str, pool_mode: str, reason: str
) -> None:
    with pooled(postgres, role, pool_mode, settings) as url:
        with pytest.raises((KohortError, OSError), match=reason):
            async with Broker(Config({"listeners": "127.0.0.1:0", "storage": url})):
                pass
        with pytest.raises((KohortError, OSError), match=reason):
            await asyncio.to_thread(PostgresTarget, url)
        assert reason in await _checked(url)


async def test_shared_sessions_are_seen_where_a_pooler_knows_prepared_statements(
    postgres: Postgres, role: str, settings: str
) -> None:
    with pooled(postgres, role, "transaction", settings) as url:
        # Without a cache no statement has a name that a session could lack.
        connections = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(2)]
        assert not await has_own_session(*connections)
        for each in connections:
            await each.close()


async def _checked(url: str) -> str:
    """What `kohort storage check` says of sessions, or why it ends."""
    try:
        findings = [each async for each in check(url, read_logged_partitions)]
    except OSError as error:
        return str(error)
    return next(each.text for each in findings if each.what == "sessions")
