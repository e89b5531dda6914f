"""PostgreSQL for tests: a private cluster in a temporary directory, started and stopped.

`Postgres.start()` is for tests; as a program it runs one cluster until Ctrl-C:

    PYTHONPATH=tests python -m peers.postgres [--port 25432] [--fsync]

It is Debian's PostgreSQL, which is installed when it is missing and the tests run as root. The
server refuses to run as root, so it runs as the user `postgres` then.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from .kafka import building, free_port

USERS = ("postgres", "nobody")
"""Users that the server may run as when the tests run as root."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "5s",
    "wal_retrieve_retry_interval": "200ms",
}
START_SECONDS = 60.0
SCHEMAS_AT_ONCE = 20
"""Starting a psql takes more time than making them."""


class PostgresUnavailableError(RuntimeError):
    """PostgreSQL cannot be had or started here; the text says why."""


def _found() -> Path | None:
    """The directory with the newest server's programs."""
    versions = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(versions, key=lambda path: float(path.parts[-3]), default=None)
    return None if newest is None else newest.parent


@cache
def programs() -> Path:
    """The directory of `postgres` and `initdb`. Raises PostgresUnavailableError."""
    if (found := _found()) is None and os.getuid() == 0 and shutil.which("apt-get"):
        with building("postgresql"):
            _install()
        found = _found()
    if found is None:
        raise PostgresUnavailableError(
            "PostgreSQL (Debian's package postgresql) is not installed, and installing it needs "
            "root and apt-get"
        )
    return found


def _install() -> None:
    if _found() is None:
        quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        # No cluster of the system's own: the tests make theirs.
        for command in (
            ("apt-get", "update", "-qq"),
            ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"),
        ):
            subprocess.run(command, env=quietly, capture_output=True, check=False)


def as_user(command: Sequence[str], user: str | None) -> list[str]:
    """The command, run as that user; as this one if it is None."""
    if user is None:
        return list(command)
    return ["setpriv", f"--reuid={user}", "--regid", _group_of(user), "--clear-groups", *command]


def _group_of(user: str) -> str:
    return str(pwd.getpwnam(user).pw_gid)


def _user() -> str | None:
    """The user to run as, None for this one. Raises PostgresUnavailableError."""
    if os.getuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    user = next((each for each in USERS if each in known), None)
    if user is None or shutil.which("setpriv") is None:
        raise PostgresUnavailableError("PostgreSQL refuses to run as root, and no other user does")
    return user


@dataclass
class Postgres:
    """One running cluster."""

    port: int
    directory: Path
    settings: dict[str, str]
    user: str | None
    process: subprocess.Popen[bytes] = field(init=False)
    _schemas: int = 0

    @property
    def url(self) -> str:
        """What `storage` is set to."""
        return f"postgresql://kohort@127.0.0.1:{self.port}/postgres"

    @classmethod
    def start(cls, port: int = 0, *, fsync: bool = False, **settings: str) -> Self:
        """Make a cluster and start it; back when it takes connections.

        Without `fsync` it is faster, and loses data when the machine goes down.
        """
        chosen = {**SETTINGS, "fsync": "on" if fsync else "off", **settings}
        return cls._made(
            port, chosen, "initdb", "--username", "kohort", "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C", "--no-sync",
        )  # fmt: skip

    @classmethod
    def _made(cls, port: int, settings: dict[str, str], *program: str) -> Self:
        """A cluster whose data a program makes, started."""
        directory = Path(tempfile.mkdtemp(prefix="kohort-postgres-"))
        cluster = cls(port or free_port(), directory, settings, _user())
        try:
            if cluster.user is not None:
                shutil.chown(directory, cluster.user, int(_group_of(cluster.user)))
            cluster._run(*program, "--pgdata", str(directory / "data"))
            cluster.run()
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return cluster

    def standby(self, port: int = 0) -> Self:
        """Start a standby of this cluster; every commit waits for it when this returns."""
        standby = self._made(
            port, self.settings, "pg_basebackup", "--dbname", self.url, "--write-recovery-conf",
            "--checkpoint", "fast", "--wal-method", "stream", "--no-sync",
        )  # fmt: skip
        self._wait_for_standbys("*")
        is_synchronous = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        while self.execute(is_synchronous) == ["0"]:
            time.sleep(0.05)
        return standby

    def promote(self) -> None:
        """Have this standby take writes, whose commits wait for no other; back when it does."""
        self._wait_for_standbys("")
        self.execute("select pg_promote()")

    def _wait_for_standbys(self, names: str) -> None:
        self.execute(
            f"alter system set synchronous_standby_names = '{names}'", "select pg_reload_conf()"
        )

    def _run(self, program: str, *arguments: str) -> None:
        command = as_user((str(programs() / program), *arguments), self.user)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        if done.returncode:
            raise PostgresUnavailableError(f"{program} failed:\n{done.stdout}{done.stderr}")

    def run(self) -> None:
        """Start the server; back when it takes connections."""
        options = [f"--{name}={value}" for name, value in self.settings.items()]
        command = [
            str(programs() / "postgres"), "-D", str(self.directory / "data"), "-p", str(self.port),
        ]  # fmt: skip
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                as_user([*command, *options], self.user),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            )  # fmt: skip
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        ready = [str(programs() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self._end_process()
                raise PostgresUnavailableError(f"PostgreSQL did not start:\n{self.log[-3000:]}")
            time.sleep(0.05)

    def execute(self, *statements: str) -> list[str]:
        """Run statements as an operator does; the rows of their results, as text."""
        command = [
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", self.url,
            *(part for each in statements for part in ("-c", each)),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.splitlines()

    def new_schema(self) -> str:
        """The URL of an empty schema that nobody else is given."""
        if self._schemas % SCHEMAS_AT_ONCE == 0:
            numbers = range(self._schemas + 1, self._schemas + SCHEMAS_AT_ONCE + 1)
            self.execute(*(f"create schema kohort_{number}" for number in numbers))
        self._schemas += 1
        return f"{self.url}?search_path=kohort_{self._schemas}"

    @property
    def log(self) -> str:
        """What the server has logged."""
        return (self.directory / "server.log").read_text(errors="replace")

    def end(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server with this signal: SIGINT is a fast shutdown, SIGQUIT a crash."""
        self.process.send_signal(how)
        self.process.wait(60)

    def restart(self, how: signal.Signals = signal.SIGQUIT, away_seconds: float = 0) -> None:
        """End the server with this signal and start it again on the same data and port."""
        self.end(how)
        time.sleep(away_seconds)
        self.run()

    def copy(self, directory: Path) -> None:
        """Have a copy of the data as they are now, from which another server can go on."""
        self._run(
            "pg_basebackup", "--pgdata", str(directory), "--checkpoint", "fast", "--no-sync",
            "--host", "127.0.0.1", "--port", str(self.port), "--username", "kohort",
        )  # fmt: skip

    def stop(self) -> None:
        """Stop the server and remove its data."""
        self._end_process()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end_process(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class Backup:
    """A copy of a cluster's data, with which it goes on from there."""

    def __init__(self, cluster: Postgres) -> None:
        self._cluster = cluster
        self._data = cluster.directory / "data"
        self._copy = cluster.directory / "copy"

    def take(self) -> None:
        self._cluster.copy(self._copy)

    def restore(self, *, promoted: bool = True) -> None:
        """Replace the data; back when the cluster takes connections.

        `promoted`: as with a standby that lagged behind, on a timeline of its own. The cluster was
        started with `restore_command="false"` then.
        """
        self._cluster.end()
        shutil.rmtree(self._data)
        self._copy.rename(self._data)
        if promoted:
            (self._data / "recovery.signal").touch()
        self._cluster.run()


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one PostgreSQL cluster until Ctrl-C.")
    parser.add_argument("--port", type=int, default=25432)
    parser.add_argument("--fsync", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Postgres.start(options.port, fsync=options.fsync) as cluster:
        print(f"PostgreSQL at {cluster.url}, data in {cluster.directory}", flush=True)
        try:
            cluster.process.wait()
        except KeyboardInterrupt:
            print("stopping", flush=True)


if __name__ == "__main__":
    main()


def make_tables(url: str) -> None:
    """Make the tables of a server, without one."""
    from kohort.storage.postgres import schema
    from kohort.storage.postgres.blocking_connection import BlockingConnection

    control = BlockingConnection(url, "test")
    try:
        control.query(schema.prepare)
    finally:
        control.close()
