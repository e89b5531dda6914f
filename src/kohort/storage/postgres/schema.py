"""The tables, made and migrated when a server starts.

They are in the first schema of the connection's `search_path`. There are no foreign keys, triggers
or functions. A batch exists once the transaction that inserts its row has committed.

| table | rows |
|---|---|
| meta | one: the version of the tables, the cluster, and who wrote last |
| nodes | a node's lanes, each with the session that may write; lane -1 has the lease |
| logs | the partitions, their checkpoints, leader epochs and snapshots of producers |
| segments | extent, timestamps, index, pages, aborted transactions; the last one may be open |
| batches | record batches as Kafka stores them; after compaction several in a row |
"""

from typing import Final

from asyncpg import Connection, InsufficientPrivilegeError, PostgresError

from kohort import __version__
from kohort.errors import KohortError, fresh
from kohort.storage.postgres import privileges

VERSION: Final = 1
PARTITIONS: Final = 16
"""Of the table of batches: each vacuum is short, and several run beside each other."""
INCOMPLETE: Final = KohortError(
    "a copy into the tables was not completed: run the same kohort storage copy again, which goes "
    "on"
)
_LOCK: Final = 0x6B6F686F7274
"""Advisory lock of processes that change the tables."""

_AUTOVACUUM: Final = (
    "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2, "
    "autovacuum_vacuum_cost_delay = 0, autovacuum_freeze_max_age = 1000000000"
)
_AUTOVACUUM_OF_TOAST: Final = (
    "toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0, "
    "toast.autovacuum_freeze_max_age = 1000000000"
)
"""With the default settings, retention leaves many times the live size."""

_TABLES: Final = """
create table meta (
    version int not null,
    cluster_id text,
    written_by text
);
create table nodes (
    node int, lane int, session bigint not null, lease_until timestamptz,
    primary key (node, lane)
) with (fillfactor = 50);
create sequence log_ids as int;
create table logs (
    id int primary key,
    topic text not null, partition int not null, topic_id uuid,
    state text not null default 'live' check (state in ('live', 'stray', 'removed')),
    state_since timestamptz not null default now(),
    start_offset bigint not null default 0,
    cleaned bigint not null default 0,
    producers bytea not null default '',
    aborted_base bigint not null default 0, aborted bytea not null default '',
    leader_epochs bytea not null default ''
);
create unique index logs_live on logs (topic, partition) where state = 'live';
create table segments (
    log int, base bigint, next bigint not null, size bigint not null,
    first_timestamp bigint not null, max_timestamp bigint not null,
    max_timestamp_offset bigint not null, created bigint not null, modified bigint not null,
    pages bytea not null, offsets bytea not null, times bytea not null, aborted bytea not null,
    is_open boolean not null,
    primary key (log, base)
);
create table batches (
    log int, base bigint, next bigint not null, epoch int not null, max_ts bigint not null,
    data bytea not null,
    primary key (log, base)
) partition by hash (log);
"""


async def prepare(connection: "Connection[object]") -> None:
    """Make the tables if there are none, or migrate them.

    Raises KohortError if they are those of a later version or not Kohort's, or the role has not all
    privileges of a server; and what asyncpg raises.
    """
    await connection.execute("select pg_advisory_lock($1)", _LOCK)
    try:
        async with connection.transaction():
            version = await tables_version(connection)
            if version == 0:
                await _create(connection)
            elif version < 0:
                raise fresh(INCOMPLETE)
            ensure_known(version)
            await privileges.ensure(connection)
    finally:
        await connection.execute("select pg_advisory_unlock($1)", _LOCK)


def ensure_known(version: int) -> None:
    """Raise KohortError if tables of that version need a later Kohort."""
    if version > VERSION:
        raise KohortError(
            f"the tables have version {version}, and this Kohort knows up to {VERSION}: "
            "start a later one"
        )


async def begin_copy(connection: "Connection[object]") -> None:
    """Have tables that no server uses, by a negative version, until `complete_copy`.

    They are empty, or have what a copy has left. Raises KohortError if they have the logs of a
    server, and as `prepare`.
    """
    async with connection.transaction():
        version = await tables_version(connection)
        ensure_known(version)
        if version == 0:
            await _create(connection)
        await privileges.ensure(connection)
        if version < 0:
            return
        if version > 0 and await connection.fetchval("select exists (select from logs)"):
            raise KohortError(
                "the tables have data, and a copy needs empty ones: name another schema by the "
                "search_path of the URL, or drop this one"
            )
        await connection.execute("update meta set version = $1, cluster_id = null", -VERSION)


async def complete_copy(connection: "Connection[object]", cluster_id: str) -> None:
    """Let servers use the tables. Raises what asyncpg raises."""
    await connection.execute(
        "update meta set version = $1, cluster_id = $2, written_by = $3",
        VERSION,
        cluster_id,
        __version__,
    )


async def tables_version(connection: "Connection[object]") -> int:
    """The version of the tables: 0 if there are none, negative if a copy was not completed.

    Raises KohortError if they are not Kohort's, the role may not read them, or there is no schema
    for them.
    """
    schema, role = await connection.fetchrow("select current_schema(), current_user")
    if schema is None:
        raise KohortError(
            f"no schema of the search_path exists that the role {role} may use: create one, GRANT "
            "USAGE ON SCHEMA, or set another"
        )
    tables = {
        row["relname"]
        for row in await connection.fetch(
            "select relname from pg_class where relnamespace = $1::regnamespace "
            "and relname in ('meta', 'nodes', 'logs', 'segments', 'batches')",
            f'"{schema}"',
        )
    }
    if not tables:
        return 0
    try:
        if "meta" in tables:
            return int(await connection.fetchval("select version from meta"))
    except InsufficientPrivilegeError as error:
        raise KohortError(
            f"the role {role} may not read the tables of the schema {schema}: their owner has to "
            f"GRANT SELECT, UPDATE ON {schema}.meta TO {role}, and the other privileges of a server"
        ) from error
    except (PostgresError, TypeError) as error:
        raise _not_ours(schema, tables) from error
    raise _not_ours(schema, tables)


def _not_ours(schema: str, tables: set[str]) -> KohortError:
    names = ", ".join(sorted(tables))
    return KohortError(
        f"the schema {schema} has tables that Kohort did not make ({names}): choose another one "
        "by the search_path of the URL"
    )


async def _create(connection: "Connection[object]") -> None:
    await connection.execute(_TABLES)
    for number in range(PARTITIONS):
        await connection.execute(
            f"create table batches_{number} partition of batches "
            f"for values with (modulus {PARTITIONS}, remainder {number}) "
            f"with ({_AUTOVACUUM}, {_AUTOVACUUM_OF_TOAST})"
        )
    if await _has_lz4(connection):
        await connection.execute("alter table batches alter data set compression lz4")
        for number in range(PARTITIONS):
            await connection.execute(f"alter table batches_{number} alter data set compression lz4")
    await connection.execute("insert into meta (version) values ($1)", VERSION)


async def _has_lz4(connection: "Connection[object]") -> bool:
    """Whether the server can compress with lz4, which costs a seventh of its own compression."""
    methods = await connection.fetchval(
        "select enumvals from pg_settings where name = 'default_toast_compression'"
    )
    return methods is not None and "lz4" in methods
