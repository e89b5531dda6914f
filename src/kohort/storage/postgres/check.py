"""Checks of `kohort storage check` on a PostgreSQL database; nothing is changed."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Any, Final

from asyncpg import PostgresError

from kohort.cluster import UnknownOutcomeError
from kohort.errors import KohortError
from kohort.log.findings import Finding, Fold, Level
from kohort.storage.postgres import pooler, privileges, schema
from kohort.storage.postgres.blocking_process import blocker
from kohort.storage.postgres.errors import DatabaseError, outcome
from kohort.storage.postgres.fence import LEASE, LOCK, LOCKS
from kohort.storage.postgres.link import TIMEOUTS, Connection, Link
from kohort.storage.postgres.logs.log_check import check_logs
from kohort.storage.postgres.synchronous_commit import check_commits

MIN_VERSION: Final = 140000
"""The oldest version of PostgreSQL that has what Kohort uses."""
NODE_CONNECTIONS: Final = 8
"""Connections of one node while no partition is moved."""
MAX_CONNECTIONS: Final = 12
"""Most connections of one node."""
_NAME: Final = "kohort storage check"
_COMMITS: Final = 20
_COMMIT_TIMEOUT_S: Final = 5.0
"""A server whose commits take longer keeps no lease, and its clients give up."""
_SLOW_MS: Final = 20.0
_NODES: Final = f"""
select n.node, coalesce(n.lease_until > now(), false),
    exists (select from (select) one join {LOCKS})
from nodes n where n.lane = $1 and n.node >= 0 order by n.node
"""  # of constants  # nosec B608
_TIMEOUTS: Final = (
    "select name, reset_val from pg_settings where name = any($1) and reset_val <> '0' "
    "order by name"
)
_LIMITS: Final = (
    # A role without pg_read_all_stats sees only database and role of other roles' sessions.
    "with used as (select datid, usesysid from pg_stat_activity where datid is not null and "
    "usesysid is not null and coalesce(backend_type, 'client backend') = 'client backend') "
    "select 'the server', current_setting('max_connections')::int "
    "- current_setting('superuser_reserved_connections')::int "
    "- coalesce(current_setting('reserved_connections', true)::int, 0), "
    "(select count(*) from used) "
    "union all select 'the role ' || rolname, rolconnlimit, "
    "(select count(*) from used where usesysid = r.oid) "
    "from pg_roles r where rolname = session_user and rolconnlimit >= 0 and not rolsuper "
    "union all select 'the database ' || datname, datconnlimit, "
    "(select count(*) from used where datid = d.oid) "
    "from pg_database d where datname = current_database() and datconnlimit >= 0 "
    "and not (select rolsuper from pg_roles where rolname = session_user)"
)
"""Whose limit of connections it is, the limit, and how many it has; superusers pass the last two.
"""


async def check(url: str, fold: Fold) -> AsyncIterator[Finding]:
    """Yield the findings on the database as they are made. Raises OSError if it cannot be used."""
    try:
        with outcome():
            async with _connected(url) as connection:
                async for finding in _findings(url, connection, fold):
                    yield finding
    except UnknownOutcomeError as error:
        raise DatabaseError(None, f"PostgreSQL cannot be used: {error}") from error


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    link = Link(url, _NAME)
    try:
        yield await link.get()
    finally:
        await link.close()


async def _findings(url: str, connection: Connection, fold: Fold) -> AsyncIterator[Finding]:
    can_commit = True
    for look in (_server, _connections, partial(_sessions, url), _settings, _locks, check_commits):
        for finding in await look(connection):
            can_commit = can_commit and finding.level is not Level.PROBLEM
            yield finding
    tables = await _tables(connection)
    for finding in tables:
        yield finding
    # An empty schema has one finding, and no contents.
    if len(tables) > 1 and all(finding.level is Level.OK for finding in tables):
        async for finding in _contents(connection, fold):
            yield finding
    if can_commit:  # else it would fail, or wait
        yield await _latency(connection)


async def _contents(connection: Connection, fold: Fold) -> AsyncIterator[Finding]:
    """Nodes, and the logs if no server uses them."""
    nodes = await connection.fetch(_NODES, LEASE, LOCK)
    for finding in [*_nodes(nodes), *await _size(connection)]:
        yield finding
    if any(has_lease or has_lock for _, has_lease, has_lock in nodes):
        yield Finding(Level.OK, "logs", "a server uses them, so they were not checked")
        return
    async for finding in check_logs(connection, fold):
        yield finding


async def _server(connection: Connection) -> list[Finding]:
    """Version, role, encryption."""
    version, number, user, remote, encrypted, protocol = await connection.fetchrow(
        "select current_setting('server_version'), current_setting('server_version_num')::int, "
        "current_user, "
        "inet_server_addr() is not null and inet_client_addr() <> inet_server_addr(), "
        "ssl, version from pg_stat_ssl where pid = pg_backend_pid()"
    )
    server = f"PostgreSQL {version}, as {user}"
    findings = [Finding(Level.OK, "server", server)]
    if number < MIN_VERSION:
        findings = [Finding(Level.PROBLEM, "server", f"{server}: version 14 or later is needed")]
    if encrypted:
        findings.append(Finding(Level.OK, "encryption", protocol))
    elif remote:
        text = "the connection is not encrypted: add sslmode=verify-full to the URL"
        findings.append(Finding(Level.WARNING, "encryption", text))
    else:
        findings.append(Finding(Level.OK, "encryption", "none, on this machine"))
    return findings


async def _connections(connection: Connection) -> list[Finding]:
    """Free connections by the narrowest limit; `connection` is one of those used."""
    limits = await connection.fetch(_LIMITS)
    free, limit, whose = min((max(limit - used + 1, 0), limit, of) for of, limit, used in limits)
    text = (
        f"{free} are free of the {limit} of {whose}; a server has {NODE_CONNECTIONS} to "
        f"{MAX_CONNECTIONS}"
    )
    return [Finding(Level.WARNING if free < NODE_CONNECTIONS else Level.OK, "connections", text)]


async def _sessions(url: str, connection: Connection) -> list[Finding]:
    """Whether each connection has a session of its own."""
    async with _connected(url) as other:
        if await pooler.has_own_session(connection, other):
            return [Finding(Level.OK, "sessions", "each connection has its own")]
    return [Finding(Level.PROBLEM, "sessions", pooler.SHARED)]


async def _settings(connection: Connection) -> list[Finding]:
    settings = dict(await connection.fetch("select name, setting from pg_settings"))
    limits = await connection.fetch(_TIMEOUTS, list(TIMEOUTS))
    return [
        Finding(Level.OK, name, f"is {ms} ms, and 0 in the connections of Kohort, which set it so")
        for name, ms in limits
    ] + [
        Finding(Level.WARNING, name, f"is off: {loses}")
        for name, loses in (
            ("fsync", "a crash of its machine can lose or damage everything"),
            ("full_page_writes", "a crash of its machine can damage tables"),
            ("autovacuum", "tables grow without limit"),
        )
        if settings[name] == "off"
    ]


async def _locks(connection: Connection) -> list[Finding]:
    """A process that blocks a server."""
    process = await blocker(connection)
    return [] if process is None else [Finding(Level.WARNING, "locks", process)]


async def _tables(connection: Connection) -> list[Finding]:
    """Schema, version, privileges."""
    try:
        version = await schema.tables_version(connection)
        schema.ensure_known(version)
    except KohortError as error:
        return [Finding(Level.PROBLEM, "schema", str(error))]
    name = await connection.fetchval("select current_schema()")
    if version < 0:
        text = f"{name} has a copy that was not completed: run the same kohort storage copy again"
        return [Finding(Level.PROBLEM, "schema", text)]
    if not version:
        may = await connection.fetchval("select has_schema_privilege(current_schema(), 'CREATE')")
        if may:
            return [Finding(Level.OK, "schema", f"{name} is empty: a server makes the tables")]
        text = f"{name} is empty, and the role may not make tables: GRANT CREATE ON SCHEMA {name}"
        return [Finding(Level.PROBLEM, "privileges", text)]
    return [
        Finding(Level.OK, "schema", f"{name} has tables of version {version}"),
        *await _privileges(connection),
    ]


async def _privileges(connection: Connection) -> list[Finding]:
    if (grants := await privileges.missing(connection)) is not None:
        return [Finding(Level.PROBLEM, "privileges", f"missing: {grants}")]
    return [Finding(Level.OK, "privileges", "a server has all that it needs")]


def _nodes(rows: Sequence[Any]) -> list[Finding]:
    """The nodes that serve, by leases and locks."""
    if not rows:
        return [Finding(Level.OK, "nodes", "none has served from here")]
    findings = []
    for node, has_lease, has_lock in rows:
        level, state = Level.OK, "serves" if has_lease else "is stopped"
        if has_lock and not has_lease:
            level, state = Level.WARNING, "hangs: it holds its lock, and no lease"
        findings.append(Finding(level, "node", f"{node} {state}"))
    return findings


async def _size(connection: Connection) -> list[Finding]:
    """Size, and whether retention frees it."""
    size, tuned = await connection.fetchrow(
        "select pg_size_pretty(sum(pg_total_relation_size(oid))), "
        "bool_and(relkind = 'p' or reloptions::text like '%autovacuum_vacuum_scale_factor%') "
        "from pg_class where relnamespace = current_schema()::regnamespace "
        "and relkind in ('r', 'p') and relname ~ '^batches(_[0-9]+)?$'"
    )
    findings = [Finding(Level.OK, "size", f"{size} of batches; the free space is not known here")]
    if not tuned:
        text = "the tables of batches have lost their settings: retention leaves dead rows"
        findings.append(Finding(Level.WARNING, "autovacuum", text))
    return findings


async def _latency(connection: Connection) -> Finding:
    """Duration of a commit of a logical message without a reader."""
    try:
        took = [await _commit_ms(connection) for _ in range(_COMMITS)]
    except TimeoutError:
        text = f"none returns within {_COMMIT_TIMEOUT_S:g} s: look at the standbys and the disk"
        return Finding(Level.PROBLEM, "commit", text)
    except PostgresError as error:
        return Finding(Level.WARNING, "commit", f"cannot be measured: {error}")
    text = f"{median(took):.1f} ms, {max(took):.1f} ms at most of {_COMMITS}"
    return Finding(Level.WARNING if median(took) > _SLOW_MS else Level.OK, "commit", text)


async def _commit_ms(connection: Connection) -> float:
    began = time.perf_counter()
    await connection.execute(
        "select pg_logical_emit_message(true, 'kohort', '')", timeout=_COMMIT_TIMEOUT_S
    )
    return (time.perf_counter() - began) * 1000
