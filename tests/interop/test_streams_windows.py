"""Kafka Streams with suppressed windows: each comes once, whatever happens to the instances."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from interop.built import streams_and_connect as command
from interop.observer import Observer
from interop.processes import PATIENCE_S, Process
from interop.targets import KohortInPostgres, Target
from interop.trial import PARTITIONS, Trial
from kohort.client.sync import Producer
from peers.postgres import PostgresUnavailableError
from waiting import wait_until

# A window that comes twice is no race of a client, so nothing is run again.
pytestmark = [pytest.mark.interop, pytest.mark.clients, pytest.mark.flaky(reruns=0)]

WINDOW_MS = 1_000
GRACE_MS = 500
KEYS = 24
EACH = 5
"""Records of a key in a window."""
WINDOWS = 10
"""Windows that are written at once."""
ROUNDS = 8
RUNS = 50
FAR_MS = 3_600_000
"""So much later than a window are the records that close it."""
ENDS = (signal.SIGTERM, signal.SIGKILL)


@pytest.fixture
def postgres_server(tmp_path: Path) -> Iterator[Target]:
    """A server with its logs in a PostgreSQL of its own."""
    try:
        server = KohortInPostgres(tmp_path)
    except PostgresUnavailableError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


class Application:
    """Counts the records of a trial by key and window."""

    def __init__(self, trial: Trial, directory: Path) -> None:
        self._trial = trial
        self._directory = directory
        self._output = f"{trial.topic}-windows"
        self._observer = Observer(trial.target.address)
        self._start_ms = int(time.time() * 1000) // WINDOW_MS * WINDOW_MS
        self.written: Counter[str] = Counter()
        trial.create_topic(self._output, PARTITIONS)

    def start(self, name: str) -> Process:
        settings = {
            "input": self._trial.topic,
            "output": self._output,
            "window.ms": WINDOW_MS,
            "grace.ms": GRACE_MS,
            "bootstrap.servers": self._trial.target.address,
            "application.id": self._trial.group,
            "client.id": name,
            "state.dir": self._directory / f"state-{name}",
            "auto.offset.reset": "earliest",
            "commit.interval.ms": 100,
            "processing.guarantee": "exactly_once_v2",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
        }
        words = (f"{key}={value}" for key, value in settings.items())
        return self._trial.start(name, command("WindowsProgram", *words), lambda _: None)

    def write(self, windows: range) -> None:
        """`EACH` records of each key in each of these windows."""
        for window in windows:
            start = self._start_ms + window * WINDOW_MS
            times = [start + each * WINDOW_MS // EACH for each in range(EACH)]
            self._write(times)
            self.written.update({f"key-{each}@{start}": len(times) for each in range(KEYS)})

    def close_windows(self) -> None:
        """Write a much later record of each key, whose own window stays open."""
        self._write([self._start_ms + FAR_MS])

    def _write(self, times_ms: list[int]) -> None:
        with Producer(bootstrap=self._trial.target.address) as producer:
            for at, key in product(times_ms, range(KEYS)):
                producer.send(self._trial.topic, b"v", key=b"key-%d" % key, timestamp=at)

    def windows(self) -> dict[str, list[int]]:
        """The counts that came of each window, in committed transactions."""
        found: dict[str, list[int]] = {}
        for key, count in self._observer.records(self._output, PARTITIONS, "read_committed"):
            found.setdefault(key, []).append(int(count))
        return found

    def await_windows(self, number: int) -> None:
        """Wait until so many windows have come."""
        wait_until(lambda: len(self.windows()) >= number, self._trial.tails, seconds=2 * PATIENCE_S)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, RUNS))]
)
def test_each_window_comes_once(
    streams_and_connect: None,
    postgres_server: Target,
    trial_on: Callable[[Target], Trial],
    tmp_path: Path,
    seed: int,
) -> None:
    """`exactly_once_v2` on PostgreSQL: two instances are stopped or killed at random moments."""
    chance = random.Random(seed)
    application = Application(trial_on(postgres_server), tmp_path)
    instances = {name: application.start(name) for name in ("first", "second")}
    for number in range(ROUNDS):
        application.write(range(number * WINDOWS, (number + 1) * WINDOWS))
        application.await_windows(KEYS * (number * WINDOWS + chance.randrange(WINDOWS - 3)))
        name = chance.choice(sorted(instances))
        instances[name].popen.send_signal(chance.choice(ENDS))
        instances[name].wait(PATIENCE_S)
        instances[name] = application.start(name)
    application.close_windows()
    application.await_windows(len(application.written))
    for instance in instances.values():
        instance.popen.send_signal(signal.SIGTERM)
        instance.wait(PATIENCE_S)
    wanted = {window: [count] for window, count in application.written.items()}
    found = application.windows()
    assert {key: found[key] for key in found if found[key] != wanted.get(key)} == {}
    assert found.keys() == wanted.keys()
