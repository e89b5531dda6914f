"""The measured servers: Kohort and its peers, each a process on a free port of 127.0.0.1.

A server is a context manager that ends the process and removes its data. `SERVERS` names every way
to start one. Starting raises `MissingError` if this machine lacks a requirement, and the
measurement continues without that peer.
"""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from tests.peers.kafka import Kafka, KafkaUnavailableError
from tests.peers.postgres import Postgres, PostgresUnavailableError

from benchmarks import processes, secured, tools
from kohort.testing.server_process import ServerProcess

START_SECONDS = 30.0
PORTS = range(29600, 29690, 2)
KAFKA_HEAP = "1g"
# A node that was stopped (`Server.pause`) must not find itself fenced when it goes on.
KAFKA_SETTINGS = {"broker.session.timeout.ms": "3600000"}


class Server:
    """A running server."""

    def __init__(
        self, name: str, pid: int, port: int, *, end: Callable[[], object], listening_s: float
    ) -> None:
        self.name = name
        self.pid = pid
        self.port = port
        self.listening_s = listening_s
        """From the start of its process until its port took a connection."""
        self.load_options: dict[str, object] = {}
        """What the load program has to do otherwise for it."""
        self.listeners: secured.Listeners | None = None
        """The listeners of a server with TLS; None without TLS."""
        self.beside: tuple[int, ...] = ()
        """Other processes without which it does not serve."""
        self.ends: list[Callable[[], object]] = [end]
        """Called in this order when the server is ended."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _pids(self) -> tuple[int, ...]:
        return (self.pid, *self.beside)

    def cpu_seconds(self) -> float:
        """CPU time since its start."""
        return sum(map(processes.cpu_seconds, self._pids))

    def resident_bytes(self) -> int:
        """Resident memory now."""
        return sum(map(processes.resident_bytes, self._pids))

    def pause(self) -> None:
        """Stop its use of CPU until `resume`, during the measurement of another server."""
        for pid in self._pids:
            processes.send_to_tree(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it; without effect if it is not paused."""
        for pid in reversed(self._pids):
            processes.send_to_tree(pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for end in self.ends:
            end()


def start_kohort(*options: str) -> Server:
    """Start `kohort serve --dev` with `options`, default logs and a temporary data directory."""
    name = "Kohort, on disk" if "--data" in options else "Kohort, in memory"
    name += ", two workers" if "--workers=2" in options else ""
    name += ", fsync" if "--set=durability=fsync" in options else ""
    return _start_kohort(name, free_port(), options, {})


def start_kohort_on_postgres() -> Server:
    """Start Kohort on a PostgreSQL of its own, whose CPU time and memory are the server's too."""
    with ExitStack() as stack:
        database = stack.enter_context(start_postgres())
        server = _start_kohort("Kohort, PostgreSQL", free_port(), ("--storage", database.url), {})
        server.beside = (database.process.pid,)
        server.ends.append(stack.pop_all().close)
    return server


def start_postgres() -> Postgres:
    """Start PostgreSQL with fsync, and memory as an operator gives it."""
    try:
        return Postgres.start(
            fsync=True, shared_buffers="256MB", max_wal_size="2GB", max_connections="100"
        )
    except PostgresUnavailableError as error:
        raise tools.MissingError(str(error)) from error


def start_kohort_with_tls(*, has_acls: bool) -> Server:
    """Start Kohort on disk with the listeners and the user of `secured`."""
    listeners = secured.Listeners(free_port(secured.LISTENERS))
    settings = {"listeners": listeners.addresses} | secured.settings(has_acls=has_acls)
    name = "Kohort, ACLs" if has_acls else "Kohort"
    server = _start_kohort(name, listeners.port, ("--data",), settings)
    return _prepared(server, listeners, has_acls=has_acls)


def _start_kohort(
    name: str, port: int, options: Sequence[str], settings: Mapping[str, str]
) -> Server:
    directory = tempfile.mkdtemp(prefix="kohort-bench-")
    data = [f"--data={directory}/data"] if "--data" in options else []
    options = tuple(option for option in options if option != "--data")
    listen = [] if "listeners" in settings else [f"--listen=127.0.0.1:{port}"]
    server = ServerProcess(
        *("--dev", *listen, *data, *options),
        log=Path(directory) / "log",
        settings=settings,
        directory=tools.ROOT,
    )
    return _started(name, server.process, port, directory, server.started)


def _prepared(server: Server, listeners: secured.Listeners, *, has_acls: bool) -> Server:
    server.listeners = listeners
    try:
        secured.prepare(server.address, has_acls=has_acls)
    except BaseException:
        with server:
            raise
    return server


def start_echo() -> Server:
    """Start `native/echo.c`, the upper bound for one core."""
    port = free_port()
    server = spawn("C epoll echo", [str(tools.echo()), str(port)], port)
    server.load_options = {"unjoined": True}
    return server


def start_kfake() -> Server:
    """Start franz-go's in-process fake of Kafka."""
    port = free_port()
    return spawn("kfake", [str(tools.kfake()), str(port)], port)


def start_tansu() -> Server:
    """Start Tansu's broker, with records in memory."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    options = {
        "storage-engine": "memory://bench/", "listener-url": address,
        "advertised-listener-url": address, "cluster-id": "bench",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return spawn("Tansu", [str(tools.tansu()), "broker", *words], port)


def start_mock() -> Server:
    """Start the mock cluster of librdkafka in a process of its own.

    It decodes Heartbeat only up to v3, and rejects followers whose SyncGroup comes after the
    leader's. Its groups therefore have one member each.
    """
    directory = tempfile.mkdtemp(prefix="kohort-bench-")
    told = Path(directory) / "address"
    process = _popen([sys.executable, "-m", "benchmarks.mock", str(told)], directory)
    started = time.monotonic()
    _await(process, told.exists, directory)
    port = int(told.read_text())
    taken = time.monotonic() - started
    server = Server(
        "librdkafka's mock", process.pid, port, end=_ender(process, directory), listening_s=taken
    )
    server.load_options = {"heartbeat_version": 3, "group_size": 1}
    return server


def start_kafka() -> Server:
    """Start Apache Kafka as the conformance suite does, with a heap of 1 GB."""
    return _start_kafka("Apache Kafka", free_port(), {})


def start_kafka_with_tls() -> Server:
    """Start Apache Kafka with the listeners, the user and the ACLs of `secured`."""
    # The controller's port follows the first.
    listeners = secured.Listeners(free_port(secured.LISTENERS + 1), after_first=1)
    controller = f"CONTROLLER://127.0.0.1:{listeners.port + 1}"
    settings = secured.settings(has_acls=True) | {
        "listeners": f"{listeners.addresses},{controller}",
        "advertised.listeners": listeners.addresses,
        "listener.security.protocol.map": secured.PROTOCOLS,
    }
    server = _start_kafka("Apache Kafka, ACLs", listeners.port, settings)
    return _prepared(server, listeners, has_acls=True)


def _start_kafka(name: str, port: int, settings: Mapping[str, str]) -> Server:
    try:
        node = Kafka.start(port, {**KAFKA_SETTINGS, **settings}, KAFKA_HEAP)
    except KafkaUnavailableError as error:
        raise tools.MissingError(str(error)) from error
    pid = node.process.pid
    return Server(name, pid, node.port, end=node.stop, listening_s=processes.age_seconds(pid))


SERVERS: Mapping[str, Callable[[], Server]] = {
    "kohort-memory": lambda: start_kohort("--memory"),
    "kohort-data": lambda: start_kohort("--data"),
    "kohort-fsync": lambda: start_kohort("--data", "--set=durability=fsync"),
    "kohort-postgres": start_kohort_on_postgres,
    "kohort-workers": lambda: start_kohort("--data", "--workers=2"),
    "kafka": start_kafka,
    "kohort-tls": lambda: start_kohort_with_tls(has_acls=False),
    "kohort-acls": lambda: start_kohort_with_tls(has_acls=True),
    "kafka-acls": start_kafka_with_tls,
    "kfake": start_kfake,
    "tansu": start_tansu,
    "mock": start_mock,
    "echo": start_echo,
}


def start_all(names: Sequence[str], stack: ExitStack) -> dict[str, Server]:
    """Start the available servers, by their key in `SERVERS`; print why another is missing."""
    started = {}
    for name in names:
        try:
            started[name] = stack.enter_context(SERVERS[name]())
        except tools.MissingError as error:
            print(f"{name} is left out: {error}", flush=True)
    return started


def free_port(count: int = 2) -> int:
    """A port that is free now, as are the next ones: `count` in all, one for Kafka's controller.

    It is below the system's range for outgoing connections, which a load could take first.
    """
    for port in PORTS:
        with ExitStack() as stack:
            try:
                for number in range(port, port + count):
                    each = stack.enter_context(socket.socket())
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    each.bind(("127.0.0.1", number))
            except OSError:
                continue
            return port
    raise tools.MissingError(f"no free port from {PORTS[0]} to {PORTS[-1]}")


def spawn(
    name: str,
    command: Sequence[str],
    port: int,
    directory: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    ready: Callable[[], bool] | None = None,
    within_seconds: float = START_SECONDS,
) -> Server:
    """Start a server by a command, and wait until it is `ready`; None: its port is open.

    `directory` is removed at its end. Raises MissingError.
    """
    directory = directory or tempfile.mkdtemp(prefix="kohort-bench-")
    started = time.monotonic()
    process = _popen(command, directory, environment)
    return _started(name, process, port, directory, started, ready, within_seconds)


def _started(
    name: str,
    process: subprocess.Popen[bytes],
    port: int,
    directory: str,
    started: float,
    ready: Callable[[], bool] | None = None,
    within_seconds: float = START_SECONDS,
) -> Server:
    """Return the server once it is `ready`; None: once its port accepts connections."""
    _await(process, ready or partial(_listens, port), directory, within_seconds)
    taken = time.monotonic() - started
    return Server(name, process.pid, port, end=_ender(process, directory), listening_s=taken)


def _popen(
    command: Sequence[str], directory: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with open(f"{directory}/log", "wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=tools.ROOT,
            env=environment,
        )


def _await(
    process: subprocess.Popen[bytes],
    ready: Callable[[], bool],
    directory: str,
    within_seconds: float = START_SECONDS,
) -> None:
    deadline = time.monotonic() + within_seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = Path(f"{directory}/log").read_text(errors="replace")[-2000:]
            _ender(process, directory)()
            raise tools.MissingError(f"it did not start:\n{tail}")
        time.sleep(0.001)


def _ender(process: subprocess.Popen[bytes], directory: str) -> Callable[[], None]:
    def end() -> None:
        # Its data is thrown away: nothing is worth a clean end. Workers would stay stopped for as
        # long as the measurement, and then use CPU in the next one.
        if process.poll() is None:
            processes.send_to_tree(process.pid, signal.SIGKILL)
        process.wait(10)
        shutil.rmtree(directory, ignore_errors=True)

    return end


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
