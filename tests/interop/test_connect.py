"""Kafka Connect: two distributed workers with a source and a sink of files, led by REST."""

import json
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

from interop.built import streams_and_connect as command
from interop.observer import Observer
from interop.processes import PATIENCE_S
from interop.targets import Target, each_server
from interop.tools import TOPICS, Tool, Tools
from interop.trial import PARTITIONS, Trial
from peers.kafka import free_port
from waiting import wait_until

WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
SINKS = 2
INTERNAL = ("config", "offset", "status")

pytestmark = [pytest.mark.interop, pytest.mark.clients]


class Worker:
    """One worker as a process, and its REST interface."""

    def __init__(self, trial: Trial, name: str, directory: Path, more: Mapping[str, str]) -> None:
        port = free_port()
        self.id = f"127.0.0.1:{port}"
        text = "org.apache.kafka.connect.storage.StringConverter"
        settings = {
            "bootstrap.servers": trial.target.address,
            "group.id": trial.group,
            "client.id": name,
            "listeners": f"http://{self.id}",
            "key.converter": text,
            "value.converter": text,
            **{f"{each}.storage.topic": f"{trial.group}-{each}" for each in INTERNAL},
            **{f"{each}.storage.replication.factor": 1 for each in INTERNAL},
            "offset.flush.interval.ms": 500,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 1_000,
            "plugin.path": str(directory),
            **more,
        }
        file = directory / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.process = trial.start(name, command(WORKER, str(file)))

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The first response that is not CONFLICT, as all are while the workers rebalance."""
        found = self.rest(method, path, body)
        deadline = time.monotonic() + PATIENCE_S
        while found[0] == HTTPStatus.CONFLICT and time.monotonic() < deadline:
            time.sleep(0.2)
            found = self.rest(method, path, body)
        return found

    def rest(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and value of a response; 0 from a worker that does not listen yet."""
        request = urllib.request.Request(
            f"http://{self.id}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.loads(response.read() or "null")
        except HTTPError as error:
            return error.code, error.read()
        except URLError:
            return 0, None

    def create(self, name: str, config: Mapping[str, str]) -> None:
        created = self.ask("POST", "/connectors", {"name": name, "config": config})
        assert created[0] == HTTPStatus.CREATED, created

    def status(self, name: str) -> tuple[str, list[str]]:
        """The state of a connector, and the workers of its running tasks."""
        code, found = self.rest("GET", f"/connectors/{name}/status")
        if code != HTTPStatus.OK:
            return "", []
        running = [each["worker_id"] for each in found["tasks"] if each["state"] == "RUNNING"]
        return found["connector"]["state"], running


class Cluster:
    """Two workers, and the files that they copy from and to."""

    def __init__(self, trial: Trial, directory: Path, **settings: str) -> None:
        self.trial = trial
        self.source, self.copy = directory / "source.txt", directory / "copy.txt"
        self._directory = directory
        self._settings = settings
        self.workers = [self.start("one"), self.start("two")]

    def start(self, name: str) -> Worker:
        return Worker(self.trial, name, self._directory, self._settings)

    def await_listening(self) -> None:
        self.until(lambda: all(each.rest("GET", "/")[0] == HTTPStatus.OK for each in self.workers))

    def write(self, lines: Iterable[str]) -> None:
        with self.source.open("a") as source:
            source.writelines(f"{line}\n" for line in lines)

    def copied(self) -> list[str]:
        return self.copy.read_text().splitlines() if self.copy.exists() else []

    def until(self, condition: Callable[[], bool]) -> None:
        wait_until(
            condition,
            lambda: f"{len(self.copied())} lines copied\n{self.trial.tails()}",
        )

    def await_tasks(self, at: Worker, *on: Worker) -> None:
        """Wait until exactly these workers run all tasks, as the worker `at` shows it."""

        def placed() -> bool:
            (_, source), (_, sink) = at.status("source"), at.status("sink")
            found = len(source) == 1 and len(sink) == SINKS
            return found and {*source, *sink} == {each.id for each in on}

        self.until(placed)


def numbered(first: int, end: int) -> list[str]:
    return [f"line-{number}" for number in range(first, end)]


@pytest.fixture
def cluster(
    streams_and_connect: None,
    target: Target,
    trial_on: Callable[[Target], Trial],
    tmp_path: Path,
) -> Cluster:
    cluster = Cluster(trial_on(target), tmp_path)
    cluster.await_listening()
    return cluster


def test_tasks_move_and_go_on(cluster: Cluster, tools: Tools) -> None:
    """`connect-distributed`: connectors are created, stopped, restarted and deleted; one of two
    workers is killed and comes back; the offsets of a sink are reset; its topics are compacted.
    """
    one, two = cluster.workers
    topic = cluster.trial.topic
    cluster.write(numbered(0, 100))
    file_source = {"connector.class": "FileStreamSource", "file": str(cluster.source)}
    one.create("source", file_source | {"topic": topic})
    file_sink = {"connector.class": "FileStreamSink", "file": str(cluster.copy)}
    two.create("sink", file_sink | {"topics": topic, "tasks.max": str(SINKS)})
    cluster.await_tasks(two, one, two)
    cluster.until(lambda: sorted(cluster.copied()) == sorted(numbered(0, 100)))

    one.process.kill()
    cluster.write(numbered(100, 200))
    cluster.await_tasks(two, two)
    cluster.until(lambda: {*cluster.copied()} == {*numbered(0, 200)})
    one = cluster.start("one")
    cluster.await_tasks(two, one, two)

    assert two.ask("PUT", "/connectors/sink/stop")[0] == HTTPStatus.NO_CONTENT
    cluster.until(lambda: two.status("sink") == ("STOPPED", []))
    assert two.ask("DELETE", "/connectors/sink/offsets")[0] == HTTPStatus.OK
    cluster.copy.unlink()
    assert two.ask("PUT", "/connectors/sink/resume")[0] == HTTPStatus.ACCEPTED
    cluster.until(lambda: {*cluster.copied()} == {*numbered(0, 200)})

    restarted = two.ask("POST", "/connectors/sink/restart?includeTasks=true")
    assert restarted[0] == HTTPStatus.ACCEPTED
    cluster.await_tasks(two, one, two)
    for name in ("source", "sink"):
        assert one.ask("DELETE", f"/connectors/{name}")[0] == HTTPStatus.NO_CONTENT
    cluster.until(lambda: two.ask("GET", "/connectors") == (HTTPStatus.OK, []))
    described = Tool(tools, TOPICS, cluster.trial.target.address)(
        "--describe", "--topic", f"{cluster.trial.group}-.*"
    )
    assert dict(
        re.findall(
            r"Topic: \S+-(\w+)\s.*PartitionCount: (\d+)\s.*cleanup.policy=compact", described
        )
    ) == {"config": "1", "offset": "25", "status": "5"}


@each_server
def test_an_exactly_once_source_writes_each_line_once(
    streams_and_connect: None,
    restartable: Target,
    trial_on: Callable[[Target], Trial],
    tmp_path: Path,
) -> None:
    """`exactly.once.source.support=enabled`: the worker of the task is killed, and then the server;
    the next task fences the last one and goes on after its last transaction.
    """
    trial = trial_on(restartable)
    cluster = Cluster(trial, tmp_path, **{"exactly.once.source.support": "enabled"})
    cluster.await_listening()
    observer = Observer(restartable.address)

    def await_lines(end: int) -> None:
        cluster.until(lambda: {*written()} == {*numbered(0, end)})

    def write_slowly(first: int, end: int) -> None:
        """In pieces, each of which is a transaction or several are."""
        for number in range(first, end, 10):
            cluster.write(numbered(number, number + 10))
            time.sleep(0.02)

    def written() -> list[str]:
        return [line for _, line in observer.records(trial.topic, PARTITIONS)]

    cluster.write(numbered(0, 100))
    cluster.workers[0].create(
        "source",
        {
            "connector.class": "FileStreamSource",
            "file": str(cluster.source),
            "topic": trial.topic,
            "exactly.once.support": "required",
            "transaction.boundary": "poll",
        },
    )
    await_lines(100)
    (at,) = cluster.workers[1].status("source")[1]
    works, other = sorted(cluster.workers, key=lambda each: each.id != at)
    write_slowly(100, 400)
    works.process.kill()
    cluster.until(lambda: other.status("source")[1] == [other.id])
    write_slowly(400, 700)
    restartable.restart(signal.SIGKILL)
    write_slowly(700, 1_000)
    await_lines(1_000)
    trial.leave(other.process)
    committed = observer.records(trial.topic, PARTITIONS, "read_committed")
    assert sorted(line for _, line in committed) == sorted(numbered(0, 1_000))
