"""PgBouncer for tests, between a server and a PostgreSQL."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from peers.kafka import free_port, listens
from peers.postgres import START_SECONDS, Postgres, as_user

CONFIGURATION = """
[databases]
postgres = host=127.0.0.1 port={of} user={role}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {pool_mode}
{settings}
"""


@contextmanager
def pooled(postgres: Postgres, role: str, pool_mode: str, settings: str) -> Iterator[str]:
    """The URL of the database by way of a pooler with these lines of settings, as that role."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("PgBouncer (Debian's package pgbouncer) is not installed")
    port = free_port()
    file = postgres.directory / f"pgbouncer-{port}.ini"
    file.write_text(
        CONFIGURATION.format(
            of=postgres.port, role=role, port=port, pool_mode=pool_mode, settings=settings
        )
    )
    with file.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            as_user([program, str(file)], postgres.user), stdout=log, stderr=log, cwd="/"
        )
    try:
        _await_listening(process, port)
        yield f"postgresql://{role}@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _await_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not listens(port):
        assert process.poll() is None, "PgBouncer ended"
        assert time.monotonic() < deadline, "PgBouncer does not listen"
        time.sleep(0.02)
