"""One topic, one group and the client processes at work on them, seen and judged from outside."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.observer import Observer
from interop.processes import PATIENCE_S, Feed, Listener, Process, finish, now, write_lines
from interop.programs import HEARTBEAT_MS, SESSION_MS, Client
from interop.targets import Target
from interop.timeline import OBSERVER, Committed, Gone, Timeline, violations

RUN = f"{os.getpid():x}"
"""Part of every name, for servers that outlive the run."""
NUMBERS = count(1)
"""Another part, for tests that are run again."""
PARTITIONS = 6


class Trial:
    """A context manager: it makes the topic, and no process that it started outlives it."""

    def __init__(
        self, target: Target, directory: Path, name: str, session_ms: int = SESSION_MS
    ) -> None:
        self.target = target
        self.session_ms = session_ms
        unique = f"{name}-{RUN}-{next(NUMBERS)}"
        self.topic = f"{unique}-topic"
        self.group = f"{unique}-group"
        self.timeline = Timeline()
        self._directory = directory
        self._processes: list[Process] = []
        self._feeds: list[tuple[Client, Feed]] = []
        self._commit_unprinted: set[str] = set()
        """Names of members."""
        self._observer = Observer(target.address)

    def __enter__(self) -> Self:
        self.create_topic(self.topic, PARTITIONS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            if process.popen.poll() is None:
                process.kill()

    def create_topic(self, topic: str, partitions: int) -> None:
        self._observer.create_topic(topic, partitions)

    # --- processes
    # ---------------------------------------------------------------------------------------------

    def member(
        self, client: Client, name: str, assignor: str = "", topics: Iterable[str] = (), **more: str
    ) -> Process:
        """Start a member of the group; its events go to the timeline under `name`. `more`: options
        of its program.
        """
        options = {
            "bootstrap": self.target.address,
            "topics": ",".join(topics) or self.topic,
            "group": self.group,
            "client": name,
            "assignor": assignor or client.assignor,
            "session": str(self.session_ms),
            "heartbeat": str(HEARTBEAT_MS),
            **more,
        }

        def listen(line: str) -> None:
            if event := client.hears(name, line):
                self.timeline.add(event)

        if client.commits_unprinted:
            self._commit_unprinted.add(name)
        command = client.command("consume", options)
        return self.start(name, command, listen, merge=client.merged_output)

    def producer(
        self, client: Client, codecs: Iterable[str] = ("none",), topic: str = ""
    ) -> Process:
        """With several codecs each record goes out with each, to the topic named after it: `topic`
        has a `{}`.
        """
        options = {
            "bootstrap": self.target.address,
            "topic": topic or self.topic,
            "codec": ",".join(codecs),
        }
        name = f"{client}-producer-{len(self._processes)}"
        return self.start(name, client.command("produce", options))

    def feed(self, client: Client, per_second: float = 150) -> Feed:
        feed = Feed(self.producer(client), per_second)
        self._feeds.append((client, feed))
        return feed

    def produce(self, client: Client, values: Iterable[str]) -> None:
        """Back when the server has acknowledged all of them."""
        producer = self.producer(client)
        write_lines(producer, ((f"key-{number}", value) for number, value in enumerate(values)))
        finish(producer)

    def kill(self, member: Process) -> None:
        with self._all_printed(member):
            member.kill()
        self.timeline.add(Gone(member.name, now()))

    def leave(self, *members: Process) -> None:
        """Ask them to leave in good order; back when they have."""
        with self._all_printed(*members):
            for member in members:
                member.ask_to_leave()
            for member in members:
                code = member.wait(PATIENCE_S)
                # 143: the JVM's own way
                assert code in (0, 143), f"{member.name} left with {code}\n{member.tail()}"
                self.timeline.add(Gone(member.name, now()))

    @contextmanager
    def _all_printed(self, *members: Process) -> Iterator[None]:
        """Feeds rest if one of the members commits what it has not printed.

        Once all that was acknowledged is printed there is no such record, and none comes before the
        members are gone: then theirs must not get lost either.
        """
        resting = [each for each in self._feeds if not each[1].is_over]
        if not resting or self._commit_unprinted.isdisjoint(each.name for each in members):
            yield
            return
        for _, feed in resting:
            feed.end()
        self.await_all_processed()
        yield
        for client, feed in resting:
            feed.resume(self.producer(client))

    def start(
        self,
        name: str,
        command: Sequence[str],
        listen: Listener | None = None,
        merge: bool = False,
    ) -> Process:
        """Start any process; it ends with the trial."""
        process = Process(name, command, self._directory / f"{name}.log", listen, merge)
        self._processes.append(process)
        return process

    # --- what is seen
    # --------------------------------------------------------------------------------------------

    def await_balanced(self, *members: Process, seconds: float = PATIENCE_S) -> None:
        """Wait until exactly these members own the topic's partitions, each at least one, none
        owned twice.
        """
        names = {member.name for member in members}
        everything = {f"{self.topic}-{number}" for number in range(PARTITIONS)}

        def balanced() -> bool:
            owned = self.timeline.owned()
            shares = [partition for share in owned.values() for partition in share]
            return owned.keys() == names and len(shares) == PARTITIONS and set(shares) == everything

        self.wait_until(balanced, f"{sorted(names)} share {self.topic}", seconds)

    def await_all_processed(self, seconds: float = PATIENCE_S) -> dict[str, int]:
        """Wait until all of the topic was processed; its end offsets, which a good leave will have
        committed.
        """
        ends = self.ends()

        def all_processed() -> bool:
            return {
                partition: len(offsets) for partition, offsets in self.timeline.processed().items()
            } == ends

        self.wait_until(all_processed, f"all records processed, up to {ends}", seconds)
        return ends

    def await_committed(self, ends: dict[str, int], seconds: float = PATIENCE_S) -> None:
        """Wait until the group has committed all of the topic."""
        self.wait_until(lambda: self.observe() == ends, f"commits of {ends}", seconds)

    def await_commit(self, seconds: float = PATIENCE_S) -> None:
        """Wait until something more is committed than now (kcat commits every 5 s)."""
        before = sum(self.observe().values())
        self.wait_until(lambda: sum(self.observe().values()) > before, "one more commit", seconds)

    def await_more(self, records: int, seconds: float = PATIENCE_S) -> None:
        """Wait until so many records more than now were processed."""
        wanted = len(self.timeline.values()) + records
        self.wait_until(
            lambda: len(self.timeline.values()) >= wanted,
            f"{records} more records processed",
            seconds,
        )

    def survive_restarts(self, restart: Callable[[signal.Signals], object]) -> None:
        """The server is stopped in good order, then killed: no acknowledged commit is lost, and
        processing goes on.
        """
        for how in (signal.SIGTERM, signal.SIGKILL):
            self.await_commit()
            acknowledged = self.timeline.committed()
            restart(how)
            kept = self.observe()
            assert {
                at: offset for at, offset in acknowledged.items() if kept.get(at, -1) < offset
            } == {}, how.name
            self.await_more(50)

    def wait_until(
        self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S
    ) -> None:
        """Come back once `condition` holds, which is looked at with each event; AssertionError with
        all that is known after `seconds`.
        """
        try:
            self.timeline.wait_until(condition, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tails()}") from None

    def tails(self) -> str:
        """The end of what each process wrote to stderr."""
        return "\n".join(process.tail() for process in self._processes)

    def observe(self) -> dict[str, int]:
        """The committed offsets as the server shows them to anyone; also goes to the timeline."""
        offsets = self._observer.committed(self.group)
        self.timeline.add(Committed(OBSERVER, now(), offsets))
        return offsets

    def is_of_type(self, type_: str) -> bool:
        """Whether the group is of this type: classic or consumer."""
        return self.group in self._observer.groups_of_type(type_)

    def ends(self) -> dict[str, int]:
        """The end offset of each partition that has records."""
        return self._observer.ends(self.topic, PARTITIONS)

    def assert_right(self, sent: Iterable[str]) -> None:
        """Every value sent is in the topic once and was processed, and nothing of `violations`
        happened.
        """
        ends = self.ends()
        values = list(sent)
        found = violations(self.timeline.events, ends)
        if sum(ends.values()) != len(values):
            found.append(
                f"{len(values)} records were acknowledged, the topic has {sum(ends.values())}"
            )
        if wrong := set(self.timeline.values()) ^ set(values):
            found.append(f"values lost or made up: {sorted(map(str, wrong))[:10]}")
        assert not found, "\n".join([*found, self.timeline.summary()])
