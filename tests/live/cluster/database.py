"""The PostgreSQL of a cluster under test, which crashes, and is replaced by its standby."""

import signal
import time
from contextlib import suppress

from peers.kafka import free_port
from peers.postgres import Postgres, PostgresUnavailableError

RESTART_SECONDS = 30.0
_KEEP_UNLOCKED = """
do $$ begin
    for i in 1..50 loop
        perform pg_terminate_backend(pid) from pg_stat_activity
            where application_name in
                ('kohort node {0} cluster lock', 'kohort node {0} cluster lease');
        perform pg_sleep(0.02);
        perform pg_stat_clear_snapshot();
    end loop;
end $$
"""


class Database:
    """A primary with a synchronous standby, which take turns on two ports."""

    def __init__(self, schema: str = "public") -> None:
        self._ports = free_port(), free_port()
        self._schema = schema
        # Without fsync, whose delays would end leases: processes are killed, never the machine.
        self.primary = Postgres.start(self._ports[0])
        try:
            self._standby = self.primary.standby(self._ports[1])
        except BaseException:
            self.primary.stop()
            raise

    @property
    def url(self) -> str:
        """What `storage` is set to: both, of which one takes writes."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"postgresql://kohort@{hosts}/postgres?target_session_attrs=read-write"

    def terminate_backends(self, share: float) -> int:
        """Terminate about this share of the connections that nodes have; how many those were."""
        ended = self.primary.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = "
            f"'client backend' and pid <> pg_backend_pid() and random() < {share}"
        )
        return len(ended)

    def keep_unlocked(self, node: int) -> None:
        """Have a node lose the lock that says that it is there, for about a second."""
        self.primary.execute(_KEEP_UNLOCKED.format(node))

    def restart(self, how: signal.Signals, away_seconds: float) -> None:
        """End the primary with this signal, and start it again so much later."""
        self.primary.end(how)
        time.sleep(away_seconds)
        deadline = time.monotonic() + RESTART_SECONDS
        while time.monotonic() < deadline:
            # After SIGKILL the processes of its connections are still there for a moment.
            with suppress(PostgresUnavailableError):
                return self.primary.run()
        raise TimeoutError(f"PostgreSQL does not start again:\n{self.primary.log[-2_000:]}")

    def promote(self, how: signal.Signals) -> None:
        """End the primary with this signal for good; a new standby takes its port."""
        self.primary.end(how)
        self._standby.promote()
        self.primary.stop()
        self.primary, port = self._standby, self.primary.port
        self._standby = self.primary.standby(port)

    def stop(self) -> None:
        for each in (self.primary, self._standby):
            each.stop()
