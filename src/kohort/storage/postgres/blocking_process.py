"""Locks of operators, backups and migrations that Kohort waits for in the database."""

from typing import Final

from kohort.storage.postgres.link import Connection

_BLOCKERS: Final = (
    "select w.application_name, b.pid, b.usename, nullif(b.application_name, ''), "
    "coalesce(extract(epoch from clock_timestamp() - b.xact_start)::int, 0) "
    "from pg_stat_activity w cross join unnest(pg_blocking_pids(w.pid)) p (pid) "
    "join pg_stat_activity b on b.pid = p.pid "
    "where w.datname = current_database() and w.usename = session_user "
    "and w.application_name like 'kohort %' and w.wait_event_type = 'Lock' "
    "and b.application_name not like 'kohort %' order by b.xact_start, w.pid limit 1"
)


async def blocker(connection: Connection) -> str | None:
    """The process that has blocked Kohort for longest, and the remedy; None if there is none.

    Raises what asyncpg raises.
    """
    row = await connection.fetchrow(_BLOCKERS)
    if row is None:
        return None
    waits, process, role, name, seconds = row
    owner = f"role {role}" if name is None else f"{name}, role {role}"
    return (
        f"the process {process} of PostgreSQL ({owner}) holds a lock that {waits} waits for, in a "
        f"transaction of {seconds} s: end it, or select pg_terminate_backend({process})"
    )
