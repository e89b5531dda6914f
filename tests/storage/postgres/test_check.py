"""What a check of a database finds."""

import asyncio
import re
import time
from contextlib import aclosing, asynccontextmanager, closing

import asyncpg
import pytest

from kohort.errors import KohortError
from kohort.log.base import LogConfig
from kohort.log.findings import Level
from kohort.server.metadata import read_logged_partitions
from kohort.storage.postgres import check as checking
from kohort.storage.postgres.check import check
from kohort.storage.postgres.cluster.postgres_cluster import PostgresCluster
from kohort.storage.postgres.logs.copy import PostgresTarget
from kohort.storage.postgres.logs.source import PostgresSource
from kohort.storage.postgres.synchronous_commit import CommitSettings
from log.conftest import DAY, NOW, ORDERS, ORDERS_ID, batch, fill
from peers.postgres import make_tables
from storage.postgres.node_logs import METADATA, NodeLogs


@pytest.fixture(autouse=True)
def commits_in_time(monkeypatch):
    """A busy machine may take a second for a commit."""
    monkeypatch.setattr(checking, "_SLOW_MS", 60_000.0)


async def test_slow_commits_are_a_warning(tables, monkeypatch):
    monkeypatch.setattr(checking, "_SLOW_MS", 0.0)
    (finding,) = await found(tables, "commit")
    assert finding.level is Level.WARNING
    assert re.fullmatch(r"[\d.]+ ms, [\d.]+ ms at most of \d+", finding.text)


@pytest.fixture
def schema(database):
    return database.rpartition("=")[2]


@pytest.fixture
def tables(database):
    """The database, with the tables that a server has made."""
    make_tables(database)
    return database


async def found(database, what):
    """The findings of one kind."""
    return [each async for each in check(database, read_logged_partitions) if each.what == what]


async def levels(database):
    """The worst level of each kind."""
    order = list(Level)
    found = {}
    async for level, what, _ in check(database, read_logged_partitions):
        found[what] = max(level, found.get(what, level), key=order.index)
    return found


@pytest.fixture
def role(postgres, schema):
    """Makes a role with options of CREATE ROLE; its name."""
    name = f"other_role_of_{schema}"

    def role(options=""):
        postgres.execute(f"create role {name} login {options}")
        return name

    yield role
    postgres.execute(f"drop owned by {name}", f"drop role {name}")


def wait_for_standbys(cluster, names):
    """Have commits of new connections wait for them."""
    cluster.execute(
        f"alter system set synchronous_standby_names = '{names}'",
        "select pg_reload_conf()",
    )
    while cluster.execute("show synchronous_standby_names") != [names]:
        time.sleep(0.02)


async def test_the_documented_privileges_suffice(as_application):
    (finding,) = await found(as_application, "privileges")
    assert finding.level is Level.OK


async def test_a_server_works_with_the_documented_privileges(as_application):
    config = LogConfig(segment_bytes=2_000, cleanup_policy=frozenset({"delete"}))
    with closing(NodeLogs(as_application)) as directory:
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, config)
        fill(log, 40)
        log.append(batch(b"late", timestamp=NOW), NOW)
        await log.durable()
        assert await log.retain(NOW + 30 * DAY)
    with closing(NodeLogs(as_application)) as directory:
        assert directory.open(ORDERS, config).end_offset == 41
        directory.remove(ORDERS, ORDERS_ID)


async def test_missing_privileges_are_named(as_application, postgres, schema):
    role = f"role_of_{schema}"
    postgres.execute(f"revoke delete on {schema}.segments from {role}")
    (finding,) = await found(as_application, "privileges")
    assert finding == (Level.PROBLEM, "privileges", "missing: GRANT DELETE ON segments")


@pytest.mark.parametrize(
    ("privilege", "place"),
    [
        *((each, "meta") for each in ("select", "update")),
        *((each, "nodes") for each in ("select", "insert", "update")),
        *((each, "logs") for each in ("select", "insert", "update", "delete")),
        *((each, "segments") for each in ("select", "insert", "update", "delete")),
        *((each, "batches") for each in ("select", "insert", "delete")),
        ("usage", "log_ids"),
        ("usage", None),
    ],
)
async def test_each_missing_privilege_is_named_by_all_that_need_it(
    as_application, postgres, schema, privilege, place
):
    role = f"role_of_{schema}"
    kind = {None: "schema ", "log_ids": "sequence "}.get(place, "")
    postgres.execute(
        f"revoke {privilege} on {kind}{f'{schema}.{place}' if place else schema} from {role}"
    )
    named = f"GRANT {privilege.upper()}.* ON .*{place or 'SCHEMA'}"
    with pytest.raises(KohortError, match=named):
        NodeLogs(as_application)
    with pytest.raises(KohortError, match=named):
        PostgresTarget(as_application)
    try:
        texts = [each.text async for each in check(as_application, read_logged_partitions)]
    except KohortError as error:
        texts = [str(error)]
    assert any(re.search(named, text) for text in texts)


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
    assert finding == (
        Level.WARNING, "synchronous_commit",
        "is off: a crash of PostgreSQL loses what was acknowledged last",
    )  # fmt: skip
    postgres.execute(f"drop role {role}")


async def test_lost_settings_of_autovacuum(postgres, tables, schema):
    assert not await found(tables, "autovacuum")
    postgres.execute(
        f"alter table {schema}.batches_3 reset (autovacuum_vacuum_scale_factor, "
        "autovacuum_vacuum_insert_scale_factor)"
    )
    (finding,) = await found(tables, "autovacuum")
    assert finding.level is Level.WARNING


async def test_tables_of_a_later_version_are_a_problem(postgres, tables, schema):
    postgres.execute(f"update {schema}.meta set version = 999")
    (finding,) = await found(tables, "schema")
    assert finding.level is Level.PROBLEM


async def test_the_check_tells_whether_each_node_serves_hangs_or_is_stopped(
    tables, postgres, schema
):
    nodes = [PostgresCluster(tables, node, METADATA, stray_retention_ms=-1) for node in (1, 2)]
    for each in nodes:
        await each.open()
        await each.storage.claim()
    await nodes[0].storage.release()
    first, second = await found(tables, "node")
    assert (first.text, second.text) == ("1 is stopped", "2 serves")
    postgres.execute(f"update {schema}.nodes set lease_until = now()")
    _, second = await found(tables, "node")
    assert (second.level, second.text.partition(":")[0]) == (Level.WARNING, "2 hangs")
    for each in nodes:
        await each.close()


async def test_a_suspended_process_that_was_replaced_does_not_count_as_its_node(
    tables, postgres, schema
):
    suspended = PostgresCluster(tables, 1, METADATA, stray_retention_ms=-1)
    await suspended.open()
    await suspended.storage.claim()
    postgres.execute(f"update {schema}.nodes set lease_until = now()")
    successor = PostgresCluster(tables, 1, METADATA, stray_retention_ms=-1)
    await successor.open()
    await successor.storage.claim()
    await successor.storage.release()
    (finding,) = await found(tables, "node")
    assert finding.text == "1 is stopped"
    for each in (suspended, successor):
        await each.close()


async def test_a_session_for_each_connection(tables):
    (finding,) = await found(tables, "sessions")
    assert finding.level is Level.OK


class TestReadOnly:
    async def test_a_url_that_is_read_only_is_a_problem(self, tables):
        (finding,) = await found(f"{tables}&default_transaction_read_only=on", "writes")
        assert finding.level is Level.PROBLEM
        assert "default_transaction_read_only is on" in finding.text

    async def test_a_role_that_is_read_only_is_a_problem(self, tables, postgres, role):
        name = role("superuser")
        postgres.execute(f"alter role {name} set default_transaction_read_only = on")
        found = await levels(tables.replace("kohort@", f"{name}@"))
        assert found["writes"] is Level.PROBLEM
        assert "commit" not in found

    def test_a_copy_is_refused_at_once(self, tables):
        for opened in (PostgresTarget, PostgresSource):
            with pytest.raises(KohortError, match="cannot be written: transactions are read-only"):
                opened(f"{tables}&default_transaction_read_only=on")


class TestConnections:
    async def test_connections_are_counted_against_the_limit_of_the_server(self, tables):
        (finding,) = await found(tables, "connections")
        assert finding.level is Level.OK
        assert "of the 57 of the server" in finding.text

    async def test_connections_are_counted_against_the_limit_of_the_role(self, tables, role):
        name = role("connection limit 3")
        (finding,) = await found(tables.replace("kohort@", f"{name}@"), "connections")
        assert finding.level is Level.WARNING
        assert finding.text.startswith(f"3 are free of the 3 of the role {name};")

    async def test_connections_are_counted_against_the_limit_of_the_database(
        self, tables, postgres, role, schema
    ):
        name, database = role(), f"database_of_{schema}"
        postgres.execute(f"create database {database} connection limit 5")
        url = tables.replace("kohort@", f"{name}@").replace("/postgres", f"/{database}")
        (finding,) = await found(url, "connections")
        assert finding.level is Level.WARNING
        assert finding.text.startswith(f"5 are free of the 5 of the database {database};")
        postgres.execute(f"drop database {database} with (force)")

    async def test_a_superuser_has_no_limit_of_its_own(self, tables, role):
        name = role("superuser connection limit 3")
        (finding,) = await found(tables.replace("kohort@", f"{name}@"), "connections")
        assert "of the server" in finding.text

    async def test_connections_of_other_roles_are_counted(self, tables, as_application):
        async def free():
            (finding,) = await found(as_application, "connections")
            return int(finding.text.split()[0])

        before = await free()
        others = [await asyncpg.connect(tables) for _ in range(20)]
        # Autovacuum and those that have just ended come and go.
        assert await free() < before - 10
        for other in others:
            await other.close()

    async def test_one_that_is_too_many_ends_what_is_told(self, tables, role):
        name = role("connection limit 1")
        async with aclosing(
            check(tables.replace("kohort@", f"{name}@"), read_logged_partitions)
        ) as told:
            assert (await anext(told)).what == "server"
            text = f'^PostgreSQL cannot be used: too many connections for role "{name}"$'
            with pytest.raises(OSError, match=text):
                assert [each.what async for each in told] == []


class TestStandbys:
    @pytest.mark.parametrize(
        ("names", "needed"),
        [
            ("", 0),
            ("*", 1),
            ("a, b", 1),
            ("2 (a, b)", 2),
            ("FIRST 2 (a, b, c)", 2),
            ("any 3(a, b, c)", 3),
            ('"first 3 (", b', 1),
        ],
    )
    def test_the_standbys_that_a_commit_needs_follow_from_synchronous_standby_names(
        self, names, needed
    ):
        commits = CommitSettings(False, False, "on", names, True, 0, 0)
        assert commits.needed == needed
        assert (commits.hindrance is None) == (needed == 0)

    async def test_one_is_missing(self, primary):
        wait_for_standbys(primary, "nobody")
        (finding,) = await found(primary.url, "writes")
        assert finding.level is Level.PROBLEM
        assert "= 'nobody' needs 1 connected, and 0 of them are" in finding.text
        assert "commit" not in await levels(primary.url)
        with pytest.raises(KohortError, match="no commit returns"):
            PostgresTarget(primary.url)
        # They need none.
        for value in ("off", "local"):
            there = await levels(f"{primary.url}?synchronous_commit={value}")
            assert there["synchronous_commit"] is there["standbys"] is Level.WARNING
            assert there["commit"] is Level.OK

    async def test_one_is_connected(self, primary):
        with primary.standby() as standby:
            (finding,) = await found(primary.url, "standbys")
            assert finding == (Level.OK, "standbys", "synchronous: *; 1 needed, 1 connected")
            assert (await levels(primary.url))["commit"] is Level.OK
            for value, loses in (
                ("local", "is local: commits wait for no standby"),
                ("remote_write", "is remote_write: what was acknowledged last is lost if"),
            ):
                url = f"{primary.url}?synchronous_commit={value}"
                (finding,) = await found(url, "synchronous_commit")
                assert finding.level is Level.WARNING
                assert finding.text.startswith(loses)
            there = await levels(standby.url)
            assert there["writes"] is Level.PROBLEM
            assert "commit" not in there
            with pytest.raises(KohortError, match="this is a standby"):
                PostgresTarget(standby.url)

    async def test_a_role_that_does_not_see_them(self, primary, monkeypatch):
        primary.execute("create role application login")
        url = primary.url.replace("kohort@", "application@")
        with primary.standby():
            (finding,) = await found(url, "standbys")
            assert "the role may not see" in finding.text
            assert (await levels(url))["commit"] is Level.OK
            monkeypatch.setattr(checking, "_COMMIT_TIMEOUT_S", 0.5)
            wait_for_standbys(primary, "nobody")
            (finding,) = await found(url, "commit")
            assert finding.level is Level.PROBLEM
            assert finding.text.startswith("none returns within 0.5 s")

    async def test_the_check_accepts_a_server_without_synchronous_standbys(self, tables):
        (finding,) = await found(tables, "standbys")
        assert finding.level is Level.OK
        assert "of 0 connected: a failover can lose" in finding.text
        assert await found(f"{tables}&synchronous_commit=local", "synchronous_commit") == []


async def test_a_first_start_is_in_order(database):
    ((level, _, text),) = await found(database, "schema")
    assert level is Level.OK
    assert "is empty: a server makes the tables" in text


async def test_timeouts_of_a_role_are_named(tables, role):
    name = role("superuser")
    async with connected(tables) as sql:
        await sql.execute(f"alter role {name} set idle_session_timeout = '5s'")
    ((level, _, text),) = await found(tables.replace("kohort@", f"{name}@"), "idle_session_timeout")
    assert level is Level.OK
    assert text.startswith("is 5000 ms, and 0 in the connections of Kohort")


async def test_a_process_whose_lock_holds_up_the_server_is_named(tables):
    """By the lane, as a problem of the database, and by the check."""
    with closing(NodeLogs(tables)) as directory:
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, LogConfig())
        async with connected(tables) as sql, sql.transaction():
            process = await sql.fetchval("select pg_backend_pid()")
            await sql.execute("set application_name = 'psql'")
            await sql.execute("lock table batches in share mode")
            fill(log, 1)
            while not (problems := directory.problems.texts(9)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert f"{process} of PostgreSQL (psql" in str(problems)
            ((level, _, text),) = await found(tables, "locks")
        await log.durable()
    assert level is Level.WARNING
    assert text.startswith(f"the process {process} of PostgreSQL (psql, role kohort) holds a lock")
    assert text.endswith(f"end it, or select pg_terminate_backend({process})")


@asynccontextmanager
async def connected(url):
    """A connection of an operator."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()
