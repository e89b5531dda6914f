"""The privileges that a server's role needs on tables which another role has made."""

from typing import Final

from asyncpg import Connection

from kohort.errors import KohortError

_TABLES: Final = {
    "meta": ("SELECT", "UPDATE"),
    "nodes": ("SELECT", "INSERT", "UPDATE"),
    "logs": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "segments": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "batches": ("SELECT", "INSERT", "DELETE"),
}
"""docs/operations.md has the GRANTs."""
_MISSING: Final = (
    "select privilege || ' ON ' || name from unnest($1::text[], $2::text[]) "
    "as wanted(name, privilege) "
    "where not has_table_privilege(name, privilege) "
    "union all select 'USAGE ON SEQUENCE log_ids' "
    "where not has_sequence_privilege('log_ids', 'USAGE')"
)


async def missing(connection: "Connection[object]") -> str | None:
    """The GRANT statements for the privileges that the role lacks, or None.

    Raises what asyncpg raises.
    """
    needed = [
        (table, privilege) for table, privileges in _TABLES.items() for privilege in privileges
    ]
    rows = await connection.fetch(_MISSING, *map(list, zip(*needed, strict=True)))
    return "; ".join(f"GRANT {grant}" for (grant,) in rows) or None


async def ensure(connection: "Connection[object]") -> None:
    """Raise KohortError if the role lacks a privilege. Raises also what asyncpg raises."""
    if (grants := await missing(connection)) is not None:
        role = await connection.fetchval("select current_user")
        raise KohortError(f"the role {role} has not all privileges of a server: {grants}")
