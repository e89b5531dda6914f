"""Members of several groups on one broker, and what they and the recorder say."""

import json
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Producer

from history.recording.broker import SESSION_MS, RecordedBroker
from interop.built import streams_and_connect
from interop.observer import Observer
from interop.processes import PATIENCE_S, Process
from interop.roster import named

PARTITIONS = 6
HEARTBEAT_MS = 500
QUIET_S = 0.4
"""No log partition grows for so long before and while a snapshot is taken."""

Event: TypeAlias = dict[str, Any]
"""`at` (ms, wall clock), `name` of the process, `group`, `event`, and its fields.

Events of clients are those of `interop/clients/lines.py` without values of records; those of the
recorder are "started" (client, instance) and "gone" (why), "did" (what).
"""


class Stage:
    """A context manager: no process that it started outlives it."""

    def __init__(self, broker: RecordedBroker, directory: Path) -> None:
        self.broker = broker
        self.observer = Observer(broker.address)
        self.events: list[Event] = []
        self.snapshots: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self.directory = directory
        self._cleaned: dict[int, int] = {}
        """First offset that no run of the cleaner has come to, by log partition."""
        self._wall_ns = time.time_ns() - time.monotonic_ns()
        self._processes: dict[str, Process] = {}
        self._topics: dict[str, str] = {}
        """Group → topic."""
        self.topic_ids: dict[str, str] = {}
        """Topic id → name."""
        self._feed = Feed(broker.address)

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.close()
        for process in self._processes.values():
            if process.popen.poll() is None:
                process.kill()

    # --- topics and members

    def topic(self, topic: str, partitions: int = PARTITIONS) -> None:
        """Create the topic; records are fed to it from now on."""
        self.observer.create_topic(topic, partitions)
        self.topic_ids[self.broker.topic_id(topic)] = topic
        self._feed.add(topic, partitions)

    def adopt(self, process: Process) -> None:
        """End the process with the stage."""
        self._processes[process.name] = process

    def drop_topic(self, topic: str) -> None:
        """Feed no more records to it."""
        self._feed.remove(topic)

    def member(self, client: str, name: str, group: str, topic: str, **options: str) -> None:
        """Start a member; `name` is its client id, too."""
        kind = named(client)
        reason = kind.missing()
        assert reason is None, f"{client}: {reason}"
        given = {
            "bootstrap": self.broker.address,
            "topics": topic,
            "group": group,
            "client": name,
            "assignor": kind.assignor,
            "session": str(SESSION_MS),
            "heartbeat": str(HEARTBEAT_MS),
            **options,
        }
        self.joins(name, group, topic, client, options.get("instance"))
        self._processes[name] = Process(
            name,
            kind.command("consume", given),
            self.directory / f"{name}.log",
            lambda line: self._hear(name, group, line),
        )

    def joins(
        self, name: str, group: str, topic: str, client: str, instance: str | None = None
    ) -> None:
        """Note a member that is about to be started."""
        self._topics[group] = topic
        self.note(name, group, "started", client=client, instance=instance)

    def _hear(self, name: str, group: str, line: str) -> None:
        if not line.startswith("{"):
            return
        said = json.loads(line)
        said.pop("values", None)
        said["at"] = (said["at"] + self._wall_ns) // 1_000_000
        with self._changed:
            self.events.append({"name": name, "group": group, **said})
            self._changed.notify_all()

    def note(self, name: str, group: str, event: str, **fields: object) -> None:
        """Add an event of the recorder."""
        now = time.time_ns() // 1_000_000
        with self._changed:
            self.events.append({"name": name, "group": group, "event": event, "at": now, **fields})
            self._changed.notify_all()

    def leave(self, *names: str) -> None:
        """Ask members that commit to leave in good order; back when their processes have ended."""
        self.await_commits(*names, count=2)
        for name in names:
            self._processes[name].ask_to_leave()
        for name in names:
            process = self._processes[name]
            code = process.wait(PATIENCE_S)
            assert code in (0, 143), f"{name} left with {code}\n{process.tail()}"
            self.note(name, self._group_of(name), "gone", why="left")

    def kill(self, name: str) -> None:
        """`kill -9` a member that commits."""
        self.await_commits(name, count=2)
        self._processes[name].kill()
        self.note(name, self._group_of(name), "gone", why="killed")

    def streams(self, name: str, topic: str, output: str, settings: dict[str, str]) -> None:
        """Start an instance of a Kafka Streams application; back when it has tasks."""
        running = threading.Event()
        options = {
            "input": topic,
            "output": output,
            "application.id": name,
            "client.id": name,
            "bootstrap.servers": self.broker.address,
            "state.dir": str(self.directory / f"{name}-state"),
            "auto.offset.reset": "earliest",
            "commit.interval.ms": "500",
            "statestore.cache.max.bytes": "0",
            **settings,
        }
        command = streams_and_connect(
            "StreamsProgram", *(f"{key}={value}" for key, value in options.items())
        )

        def hear(line: str) -> None:
            state, _, tasks = line.partition(" ")
            if state == "RUNNING" and tasks not in ("", "0"):
                running.set()

        self.note(name, name, "started", client="streams", instance=None)
        self.adopt(Process(name, command, self.directory / f"{name}.log", hear))
        assert running.wait(PATIENCE_S), self._processes[name].tail()

    def stop_streams(self, name: str) -> None:
        """End it in good order."""
        self._processes[name].ask_to_leave()
        self._processes[name].wait(PATIENCE_S)
        self.note(name, name, "gone", why="left")

    def _group_of(self, name: str) -> str:
        return next(str(each["group"]) for each in self.events if each["name"] == name)

    # --- waiting

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """AssertionError if it does not come true; looked at with each event."""
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not condition():
                self._changed.wait(0.5)
                if time.monotonic() > deadline:
                    tails = "\n".join(each.tail() for each in self._processes.values())
                    raise AssertionError(f"not seen: {what}\n{self.owned()}\n{tails}")

    def owned(self) -> dict[str, set[str]]:
        """Partitions of each process that runs, as it said last."""
        owned: dict[str, set[str]] = {}
        for event in self.events:
            if event["event"] == "owns":
                owned[event["name"]] = set(event["partitions"])
            elif event["event"] == "gone":
                owned.pop(event["name"], None)
        return owned

    def await_shared(self, *names: str, partitions: int = PARTITIONS) -> None:
        """Wait until these members own all partitions of their topic, each at least one, and no
        partition is owned twice, and all have committed since.
        """
        topic = self._topics[self._group_of(names[0])]
        everything = sorted(f"{topic}-{number}" for number in range(partitions))

        def shared() -> bool:
            owned = self.owned()
            shares = [owned.get(name, set()) for name in names]
            return all(shares) and sorted(each for share in shares for each in share) == everything

        self.wait_until(shared, f"{names} share {topic}")
        self.await_commits(*names)

    def await_commits(self, *names: str, count: int = 3) -> None:
        """Wait for so many more commits of each."""
        before = self._commits()

        def more() -> bool:
            now = self._commits()
            return all(now[name] >= before[name] + count for name in names)

        self.wait_until(more, f"{count} more commits of {names}")

    def _commits(self) -> dict[str, int]:
        count: dict[str, int] = defaultdict(int)
        for event in self.events:
            count[event["name"]] += event["event"] == "committed"
        return count

    def await_owned_again(self, name: str) -> None:
        """Wait until the member has had two member ids, and owns something."""

        def again() -> bool:
            said = [
                each for each in self.events if each["name"] == name and each["event"] == "owns"
            ]
            ids = {each["member"] for each in said if each["partitions"]}
            return len(ids) > 1 and bool(said[-1]["partitions"])

        self.wait_until(again, f"{name} comes back as another member")

    # --- the log

    def keep_whole(self) -> None:
        """Copy the segments that no run of the cleaner has come to. The log rests."""
        current = self.directory.parent / "current"
        self.broker.copy(current)
        for segment in current.glob("*/*.log"):
            number = int(segment.parent.name.rpartition("-")[2])
            if int(segment.stem) >= self._cleaned.get(number, 0):
                target = self.directory.parent / "whole" / segment.parent.name
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(segment, target)
        shutil.rmtree(current)

    def compact(self) -> None:
        """Run the cleaner; the segments before that are kept in `whole`."""
        with self.quiet() as ends:
            self.keep_whole()
            self.broker.compact()
            self._cleaned = self.broker.cleaned()
            grown = {each for each, end in ends.items() if self._cleaned.get(each, 0) > end}
            assert not grown, "records were appended and cleaned before they were copied"
        self.note("broker", "", "did", what="compacted", cleaned=self._cleaned)

    # --- what the broker says

    def groups_tool(self, group: str, *flags: str) -> str:
        """kafka-consumer-groups for a group, noted as an event."""
        printed = self.broker.groups_tool("--group", group, *flags)
        self.note("kafka-consumer-groups", group, "did", what=" ".join(flags), printed=printed)
        return printed

    @contextmanager
    def quiet(self, seconds: float = QUIET_S) -> Iterable[dict[int, int]]:
        """No records are fed; the block begins when no log partition has grown for a while, with
        their ends.
        """
        self._feed.pause()
        deadline = time.monotonic() + PATIENCE_S
        ends, since = self.broker.ends(), time.monotonic()
        while time.monotonic() - since < seconds:
            assert time.monotonic() < deadline, "the log grows without records to read"
            time.sleep(0.1)
            if (now := self.broker.ends()) != ends:
                ends, since = now, time.monotonic()
        yield ends
        self._feed.resume()

    def snapshot(self, what: str) -> None:
        """Keep what kafka-consumer-groups shows of all groups at one position of the log."""
        for _ in range(20):
            with self.quiet() as ends:
                at = time.time_ns() // 1_000_000
                offsets = self.broker.groups_tool("--describe", "--all-groups", "--offsets")
                members = self.broker.groups_tool(
                    "--describe", "--all-groups", "--members", "--verbose"
                )
                states = self.broker.groups_tool("--describe", "--all-groups", "--state")
                if self.broker.ends() == ends:
                    self.snapshots.append(
                        {
                            "what": what,
                            "at": at,
                            "ends": ends,
                            "offsets": _rows(offsets),
                            "members": _rows(members),
                            "states": _rows(states),
                        }
                    )
                    print(f"  {what}", flush=True)
                    return
        raise AssertionError(f"the log never rests: {what}")


def _rows(printed: str) -> list[dict[str, str]]:
    """The tables in a tool's output, one after the other."""
    rows, header = [], []
    for line in printed.splitlines():
        words = line.split()
        if words[:1] == ["GROUP"]:
            header = words
        elif header and len(words) >= len(header) - 1:
            rows.append(dict(zip(header, words, strict=False)))
    return rows


class Feed:
    """Writes records to topics at a steady pace, one after the other into each partition."""

    PER_SECOND = 2.0
    """For each partition."""

    def __init__(self, address: str) -> None:
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
        self._partitions: dict[str, int] = {}
        self._paused = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, topic: str, partitions: int) -> None:
        with self._lock:
            self._partitions = {**self._partitions, topic: partitions}

    def remove(self, topic: str) -> None:
        with self._lock:
            self._partitions = {
                each: count for each, count in self._partitions.items() if each != topic
            }

    def pause(self) -> None:
        self._paused.set()
        with self._lock:
            self._producer.flush(PATIENCE_S)

    def resume(self) -> None:
        self._paused.clear()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(10)

    def _run(self) -> None:
        number = 0
        while not self._closed.wait(1 / self.PER_SECOND / PARTITIONS):
            with self._lock:
                if self._paused.is_set():
                    continue
                number += 1
                for topic, count in self._partitions.items():
                    self._producer.produce(topic, b"%d" % number, partition=number % count)
                self._producer.poll(0)
