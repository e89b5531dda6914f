"""Logs in PostgreSQL to test with."""

import asyncio
import contextlib

import asyncpg
import pytest

from kohort.log.base import LogConfig
from kohort.storage.postgres.cluster import node_lock
from log.conftest import ORDERS, ORDERS_ID
from storage.postgres.node_logs import NodeLogs

DEFAULTS = LogConfig()


@pytest.fixture(autouse=True)
def locks_are_trusted(monkeypatch):
    """The database of the tests may have started a moment ago, as after a restart."""
    monkeypatch.setattr(node_lock, "RESTART_GRACE_S", 0)


@pytest.fixture
def open_directory(database):
    """Opens the logs of a node, closed in the end."""
    opened = []

    def open_directory(**options):
        directory = NodeLogs(database, **options)
        opened.append(directory)
        if ORDERS not in directory.directories.topic_ids:
            directory.directories.make({ORDERS: ORDERS_ID})
        return directory

    yield open_directory
    for directory in opened:
        with contextlib.suppress(OSError):
            directory.close()


@pytest.fixture
def reopened(open_directory):
    """The log after its server has ended and another one has started."""

    def reopened(directory, config=DEFAULTS):
        directory.close()
        return open_directory().open(ORDERS, config)

    return reopened


@pytest.fixture
async def sql(database):
    """A connection to the schema of the test, as an operator has it."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def waiting(sql, count=1):
    """Return when so many statements wait for a lock."""
    while await sql.fetchval("select count(*) from pg_locks where not granted") < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
