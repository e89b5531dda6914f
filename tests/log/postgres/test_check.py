"""What a check of a database finds."""

from contextlib import closing

import pytest

from kohort.log.base import LogConfig
from kohort.log.findings import Level
from kohort.log.postgres.check import check
from kohort.log.postgres.directory import PostgresDirectory
from kohort.server.topics import known_partitions
from log.conftest import DAY, NOW, ORDERS, ORDERS_ID, batch, fill


@pytest.fixture
def schema(database):
    return database.rpartition("=")[2]


@pytest.fixture
def tables(database):
    """The database, with the tables that a server has made."""
    PostgresDirectory(database).close()
    return database


async def found(database, what):
    """The findings of one kind."""
    return [each for each in await check(database, known_partitions) if each.what == what]


async def test_the_documented_privileges_suffice(as_application):
    (finding,) = await found(as_application, "privileges")
    assert finding.level is Level.OK


async def test_a_server_works_with_the_documented_privileges(as_application):
    config = LogConfig(segment_bytes=2_000, cleanup_policy=frozenset({"delete"}))
    with closing(PostgresDirectory(as_application)) as directory:
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, config)
        fill(log, 40)
        log.append(batch(b"late", timestamp=NOW), NOW)
        await log.durable()
        assert log.retain(NOW + 30 * DAY)
    with closing(PostgresDirectory(as_application)) as directory:
        assert directory.open(ORDERS, config).end_offset == 41
        directory.remove(ORDERS, ORDERS_ID)


async def test_missing_privileges_are_named(as_application, postgres, schema):
    role = f"role_of_{schema}"
    postgres.execute(f"revoke delete on {schema}.segments from {role}")
    (finding,) = await found(as_application, "privileges")
    assert finding == (Level.PROBLEM, "privileges", "missing: GRANT DELETE ON segments")


async def test_a_role_that_may_not_make_tables(postgres, database, schema):
    role = f"role_of_{schema}"
    postgres.execute(f"create role {role} login", f"grant usage on schema {schema} to {role}")
    (finding,) = await found(database.replace("kohort@", f"{role}@"), "privileges")
    assert finding.level is Level.PROBLEM
    assert f"GRANT CREATE ON SCHEMA {schema}" in finding.text
    postgres.execute(f"drop owned by {role}", f"drop role {role}")


async def test_a_role_that_loses_commits(postgres, tables, schema):
    role = f"role_of_{schema}"
    postgres.execute(
        f"create role {role} login superuser", f"alter role {role} set synchronous_commit = off"
    )
    (finding,) = await found(tables.replace("kohort@", f"{role}@"), "synchronous_commit")
    assert finding.level is Level.WARNING
    postgres.execute(f"drop role {role}")


async def test_lost_settings_of_autovacuum(postgres, tables, schema):
    assert not await found(tables, "autovacuum")
    postgres.execute(
        f"alter table {schema}.batches_3 reset (autovacuum_vacuum_scale_factor, "
        "autovacuum_vacuum_insert_scale_factor)"
    )
    (finding,) = await found(tables, "autovacuum")
    assert finding.level is Level.WARNING


async def test_tables_of_a_later_version(postgres, tables, schema):
    postgres.execute(f"update {schema}.meta set version = 999")
    (finding,) = await found(tables, "schema")
    assert finding.level is Level.PROBLEM


async def test_nodes(tables, postgres, schema):
    with closing(PostgresDirectory(tables, node=2)):
        first, second = await found(tables, "node")
        assert (first.text, second.text) == ("1 is stopped", "2 serves")
        postgres.execute(f"update {schema}.nodes set lease_until = now()")
        _, second = await found(tables, "node")
        assert (second.level, second.text.partition(":")[0]) == (Level.WARNING, "2 hangs")


async def test_a_session_for_each_connection(tables):
    (finding,) = await found(tables, "sessions")
    assert finding.level is Level.OK
