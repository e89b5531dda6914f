"""Whether commits return, and what they survive: by read-only transactions, `synchronous_commit`
and synchronous standbys.

A commit waits for standbys if `synchronous_standby_names` is set, and `synchronous_commit` is not
`off` or `local`. If too few of them are connected, it waits until they are: the statement has
neither a result nor an error. So this is looked at before anything is written.
"""

import re
from typing import Final, NamedTuple

from kohort.errors import KohortError
from kohort.log.findings import Finding, Level
from kohort.storage.postgres.link import Connection

_NEEDED: Final = re.compile(r"\s*(?:(?:any|first)\s+)?([0-9]+)\s*\(", re.IGNORECASE)
_STATE: Final = (
    "select pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', "
    "current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), "
    "pg_has_role('pg_read_all_stats', 'usage'), count(*), "
    "count(*) filter (where sync_state in ('sync', 'quorum')) from pg_stat_replication"
)
_LOSES: Final = {
    "local": "commits wait for no standby, and one that is promoted can lack what was "
    "acknowledged last",
    "remote_write": "what was acknowledged last is lost if the primary fails, and the operating "
    "system of its standby as well",
}
"""By `synchronous_commit`, beside `off`, of a database with synchronous standbys."""


class CommitSettings(NamedTuple):
    """The commit settings of a connection."""

    is_standby: bool
    is_read_only: bool
    synchronous_commit: str
    names: str
    """`synchronous_standby_names`; empty: there are no synchronous standbys."""
    sees_standbys: bool
    """Whether the role may see which of the connected standbys are synchronous."""
    connected: int
    """Standbys, backups that run, and others that receive the WAL."""
    synchronous: int
    """Those of them whose word counts; 0 if the role may not see it."""

    @property
    def needed(self) -> int:
        """Synchronous standbys that a commit waits for."""
        if not self.names:
            return 0
        match = _NEEDED.match(self.names)
        return int(match[1]) if match else 1

    @property
    def waits(self) -> bool:
        """Whether a commit waits for standbys."""
        return bool(self.names) and self.synchronous_commit not in ("off", "local")

    @property
    def present(self) -> int:
        """Synchronous standbys that are connected, or as many as there may be."""
        return self.synchronous if self.sees_standbys else self.connected

    @property
    def hindrance(self) -> str | None:
        """Reason why nothing can be committed, and the remedy; None if commits return."""
        if self.is_standby:
            return "this is a standby, which takes no writes"
        if self.is_read_only:
            return (
                "transactions are read-only: default_transaction_read_only is on, in the URL, or "
                "for the role, the database or the server"
            )
        if self.waits and self.missing is not None:
            return (
                f"no commit returns, because {self.missing}: start the standby, check the "
                "application_name of its primary_conninfo, or change the setting"
            )
        return None

    @property
    def missing(self) -> str | None:
        """Text on the synchronous standbys that are not connected, None if enough of them are."""
        if self.present >= self.needed:
            return None
        return (
            f"synchronous_standby_names = '{self.names}' needs {self.needed} connected, and "
            f"{self.present} of them are"
        )


async def commit_settings(connection: Connection) -> CommitSettings:
    """The commit settings of the connection. Raises what asyncpg raises."""
    return CommitSettings(*await connection.fetchrow(_STATE))


async def ensure_possible(connection: Connection) -> None:
    """Raise KohortError if nothing can be committed. Raises also what asyncpg raises."""
    hindrance = (await commit_settings(connection)).hindrance
    if hindrance is not None:
        raise KohortError(f"the database cannot be written: {hindrance}")


async def check_commits(connection: Connection) -> list[Finding]:
    """Whether commits return, and what they survive. Raises what asyncpg raises."""
    commits = await commit_settings(connection)
    loses = _loses(commits)
    findings = [] if loses is None else [Finding(Level.WARNING, "synchronous_commit", loses)]
    if commits.hindrance is not None:
        return [*findings, Finding(Level.PROBLEM, "writes", commits.hindrance)]
    return [*findings, _standbys(commits)]


def _loses(commits: CommitSettings) -> str | None:
    """Text on the commits that a failure can lose by `synchronous_commit`, None if by none."""
    value = commits.synchronous_commit
    if value == "off":
        return "is off: a crash of PostgreSQL loses what was acknowledged last"
    loses = _LOSES.get(value) if commits.names else None
    return None if loses is None else f"is {value}: {loses}"


def _standbys(commits: CommitSettings) -> Finding:
    """Which standbys there are of a database that can be written."""
    if not commits.names:
        text = (
            f"none is synchronous, of {commits.connected} connected: a failover can lose what was "
            "acknowledged last"
        )
        return Finding(Level.OK, "standbys", text)
    if commits.missing is not None:
        return Finding(Level.WARNING, "standbys", commits.missing)
    if not commits.sees_standbys:
        text = (
            f"synchronous: {commits.names}; the role may not see which are connected (GRANT "
            "pg_read_all_stats)"
        )
        return Finding(Level.OK, "standbys", text)
    text = f"synchronous: {commits.names}; {commits.needed} needed, {commits.present} connected"
    return Finding(Level.OK, "standbys", text)
