"""Several `kohort serve` with one node id on one database."""

import os
import signal

from cli.served import Serve
from cli.test_serve_workers import IN_CLUSTER, RECORDS, get, produce, read_on
from kohort.testing.server_process import ServerProcess
from peers.postgres import Postgres
from waiting import wait_until

IN_USE = "serves as node 0 from this database"


def test_a_suspended_server_does_not_take_its_node_id_back(
    serve: Serve, database: str, postgres: Postgres
) -> None:
    """It waits for the end of its successor, to which it sends clients. Others do not start."""

    def start() -> ServerProcess:
        return serve("--storage", database, "--http", "127.0.0.1:0", *IN_CLUSTER)

    def ensure_refused() -> None:
        refused = start()
        assert refused.wait() == 2
        assert IN_USE in refused.lines[-1]

    suspended = start()
    produce(suspended.address)
    os.kill(suspended.process.pid, signal.SIGSTOP)
    nodes = f"{database.rpartition('=')[2]}.nodes"
    wait_until(lambda: not postgres.execute(f"select 1 from {nodes} where lease_until > now()"))
    successor = start()
    produce(successor.address, RECORDS)
    ensure_refused()
    os.kill(suspended.process.pid, signal.SIGCONT)
    wait_until(lambda: "another process" in get(suspended, "/health")[1])
    ensure_refused()
    produce(suspended.address, 2 * RECORDS)
    assert read_on(suspended.address, 3 * RECORDS) == list(range(3 * RECORDS))
    assert get(successor, "/health")[0] == 200
    assert not [line for line in successor.lines if "another process" in line]
    successor.kill()
    wait_until(lambda: get(suspended, "/ready")[0] == 200)
    ensure_refused()
    produce(suspended.address, 3 * RECORDS)
    assert read_on(suspended.address, RECORDS) == list(range(3 * RECORDS, 4 * RECORDS))
    assert suspended.stop() == 0
