"""Kafka Streams: an application with a repartition topic, a count and a windowed count."""

import signal
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from interop.built import streams_and_connect as command
from interop.observer import Observer
from interop.processes import PATIENCE_S, Process
from interop.programs import KOHORT
from interop.targets import Target, each_server
from interop.tools import Tool, Tools
from interop.trial import PARTITIONS, Trial
from waiting import wait_until

RESETTER = "org.apache.kafka.tools.StreamsResetter"
TASKS = 2 * PARTITIONS
"""One of each partition of the input, and of the repartition topic."""
SESSION_MS = 45_000
"""More than the restart of an instance takes."""

pytestmark = [pytest.mark.interop, pytest.mark.clients]


class Instance:
    """One instance as a process, a static member of the application's group."""

    def __init__(self, trial: Trial, name: str, settings: dict[str, str]) -> None:
        self.said: list[str] = []
        words = (f"{key}={value}" for key, value in settings.items())
        self.process: Process = trial.start(
            name, command("StreamsProgram", *words), self.said.append
        )

    @property
    def tasks(self) -> int:
        """The number of its tasks while it is running, else 0."""
        state, tasks = self.said[-1].split() if self.said else ("", "0")
        return int(tasks) if state == "RUNNING" else 0


class Application:
    """The application, which counts the records of a trial by key."""

    def __init__(self, trial: Trial, directory: Path, guarantee: str = "at_least_once") -> None:
        self.name = trial.group
        self.guarantee = guarantee
        self.observer = Observer(trial.target.address)
        self._trial = trial
        self._output = f"{trial.topic}-counts"
        self._directory = directory
        trial.create_topic(self._output, PARTITIONS)

    def start(self, name: str) -> Instance:
        settings = {
            "input": self._trial.topic,
            "output": self._output,
            "bootstrap.servers": self._trial.target.address,
            "application.id": self.name,
            "client.id": name,
            "group.instance.id": name,
            "state.dir": str(self._directory / f"state-{name}"),
            "auto.offset.reset": "earliest",
            "commit.interval.ms": "200",
            "processing.guarantee": self.guarantee,
            "statestore.cache.max.bytes": "0",
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": "500",
        }
        return Instance(self._trial, name, settings)

    def await_tasks(self, *instances: Instance) -> None:
        """Wait until exactly these instances run all tasks, each some."""
        wait_until(
            lambda: (
                all(each.tasks for each in instances)
                and sum(each.tasks for each in instances) == TASKS
            ),
            lambda: f"{[each.said for each in instances]}\n{self._trial.tails()}",
            seconds=PATIENCE_S,
        )

    def await_counts(self, keys: Iterable[str], right: Callable[[int, int], bool]) -> None:
        """Wait until `right` holds for the last count of each key, in all and of the day, and the
        number of times that it is in `keys`.
        """
        wanted = Counter(keys)
        wanted.update({f"{key}@day": count for key, count in wanted.items()})

        def counted() -> bool:
            counts = self.counts()
            return counts.keys() == wanted.keys() and all(
                right(counts[key], count) for key, count in wanted.items()
            )

        wait_until(counted, lambda: f"{self.counts()}\nnot {wanted}\n{self._trial.tails()}")

    def await_more_counts(self) -> None:
        """Wait until more is counted than now."""
        before = sum(self.counts().values())
        wait_until(lambda: sum(self.counts().values()) > before, self._trial.tails)

    def counts(self) -> dict[str, int]:
        found = self.observer.records(self._output, PARTITIONS)
        return {key: int(count) for key, count in found}

    def committed_counts(self) -> dict[str, list[int]]:
        """All counts of each key in committed transactions, in their order."""
        found: dict[str, list[int]] = {}
        for key, count in self.observer.records(self._output, PARTITIONS, "read_committed"):
            found.setdefault(key, []).append(int(count))
        return found

    def internal_topics(self) -> set[str]:
        """Its repartition topic and changelogs, without its name."""
        start = f"{self.name}-"
        return {
            name.removeprefix(start) for name in self.observer.topics() if name.startswith(start)
        }


def test_instances_restart_and_take_over(
    streams_and_connect: None,
    restartable: Target,
    trial_on: Callable[[Target], Trial],
    tools: Tools,
    tmp_path: Path,
) -> None:
    """`at_least_once`; a rolling restart of static members counts exactly, `kill -9` of the server
    and of an instance loses nothing; `kafka-streams-application-reset`.
    """
    trial = trial_on(restartable)
    application = Application(trial, tmp_path)
    feed = trial.feed(KOHORT)
    first, second = application.start("first"), application.start("second")
    application.await_tasks(first, second)
    told = len(second.said)
    first.process.ask_to_leave()
    first.process.wait(PATIENCE_S)
    again = application.start("first")
    application.await_tasks(again, second)
    assert len(second.said) == told, "the others notice nothing of a static member's restart"
    feed.end()
    application.await_counts(feed.keys, int.__eq__)

    more = trial.feed(KOHORT)
    restartable.restart(signal.SIGKILL)
    application.await_more_counts()
    again.process.kill()
    application.await_tasks(second)
    more.end()
    application.await_counts(feed.keys + more.keys, int.__ge__)
    assert application.internal_topics() == {
        "keys-repartition",
        "total-changelog",
        "daily-changelog",
    }

    trial.leave(second.process)
    assert trial.ends().items() <= trial.observe().items()
    reset = Tool(tools, RESETTER, restartable.address)
    said = reset("--application-id", application.name, "--input-topics", trial.topic, "--force")
    assert application.internal_topics() == set(), said
    kept = trial.observe()
    assert {kept[partition] for partition in trial.ends()} == {0}


@each_server
def test_exactly_once_counts_exactly(
    streams_and_connect: None,
    restartable: Target,
    trial_on: Callable[[Target], Trial],
    tmp_path: Path,
) -> None:
    """`exactly_once_v2`: `kill -9` of an instance and of the server counts no record twice."""
    trial = trial_on(restartable)
    application = Application(trial, tmp_path, "exactly_once_v2")
    feed = trial.feed(KOHORT)
    first, second = application.start("first"), application.start("second")
    application.await_tasks(first, second)
    application.await_more_counts()
    first.process.kill()
    application.await_tasks(second)
    application.await_more_counts()
    restartable.restart(signal.SIGKILL)
    application.await_more_counts()
    feed.end()
    application.await_counts(feed.keys, int.__eq__)
    trial.leave(second.process)
    assert application.committed_counts() == {
        name: [*range(1, count + 1)]
        for key, count in Counter(feed.keys).items()
        for name in (key, f"{key}@day")
    }
