"""Topics under random faults and restarts: nothing that was acknowledged is undone.

Whatever write, sync, rename or new directory fails, and however the server ends, it starts again on
what is left with the topics that were acknowledged, and leaves the directories of others alone.
"""

import asyncio
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from effort import examples
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import durability
from kohort.log.local import LocalDirectory
from kohort.log.partition_mark import MARK, decode_mark
from kohort.server.config.config import Config
from kohort.server.controller import NewPartitions, NewTopic, open_controller
from log.power_loss import VolatileDisk
from server.handlers.bench import START, batch_of

NAMES = st.sampled_from(["a", "A", "b"])
FAULTS = st.tuples(
    st.just("fsync")
    | st.sampled_from(["rename", "replace", "mkdir", "open", "write", "pwritev", "unlink"]),
    st.integers(0, 5),
)
"""What fails, and after how many calls."""


class Expected(NamedTuple):
    """A topic as clients were told of it."""

    id: UUID
    partitions: int


class TopicsMachine(RuleBasedStateMachine):
    """A server's topics on a disk that may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        self.root = Path(self.opened.enter_context(tempfile.TemporaryDirectory()))
        # The disk is simulated, and this is faster.
        self.opened.enter_context(patch.object(os, "fsync", lambda _: None))
        self.opened.enter_context(patch.object(durability, "RETRY_BACKOFF_S", 0.0))
        self.runner = self.opened.enter_context(asyncio.Runner())
        self.lives = 0
        self.recording = ExitStack()
        self.fault: tuple[str, int] | None = None
        """It lasts until it is mended."""
        self.acknowledged: dict[str, Expected] = {}
        self.records: dict[str, int] = {}
        """Records in the partition 0 of a topic."""
        self.refused: dict[str, set[Expected | None]] = {}
        """What a power loss may leave of changes that were refused."""
        self.foreign: dict[str, bytes] = {}
        """Files that are not the server's, by their directories."""

    @initialize(ignores_case=st.booleans())
    def first_start(self, ignores_case: bool) -> None:
        self.ignores_case = ignores_case
        self.path = self.root / "0" / "data"
        self.path.parent.mkdir()
        self.record()
        self.start()

    def teardown(self) -> None:
        self.fault = None
        self.controller.close()
        self.end()
        self.recording.close()
        self.opened.close()

    # Lives

    def record(self) -> None:
        """Record what is done from now on below the present path."""
        self.recording.close()
        self.disk = VolatileDisk(self.path, before=self.before)
        self.recording.enter_context(self.disk.recording())

    def before(self, operation: str) -> None:
        if self.fault is not None and self.fault[0] == operation:
            self.fault = operation, self.fault[1] - 1
            if self.fault[1] < 0:
                raise OSError(5, "Input/output error")

    def start(self) -> None:
        self.logs = LocalDirectory(self.path, is_case_insensitive=self.ignores_case)
        try:
            self.controller = open_controller(self.logs, Config(), lambda: START)
            self.topics = self.controller.replicas.topics
            self.logs.confirm_start()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        try:
            self.logs.close()
        except OSError:
            assert self.fault is not None

    def move(self) -> Path:
        """The path of the next life."""
        self.lives += 1
        self.path = self.root / str(self.lives) / "data"
        self.path.parent.mkdir()
        return self.path

    def mended(self) -> None:
        self.fault = None

        async def resumed() -> None:
            async with asyncio.timeout(30):
                while self.logs.problems:
                    await self.logs.reopen()
                    await asyncio.sleep(0)

        self.runner.run(resumed())

    # Changes

    def change(
        self, name: str, work: Any, after: Expected | None, fault: tuple[str, int] | None
    ) -> bool:
        """Do it; whether it was acknowledged. `after` is the topic then, if its id is known.

        With a `fault`, that of before is mended first.
        """
        if fault is not None:
            self.mended()
            self.fault = fault
        try:
            (outcome,) = self.runner.run(work)
        except KafkaError as error:
            outcome = error
        if not isinstance(outcome, KafkaError):
            # All that was written before is on the disk too.
            self.refused.clear()
            return True
        if outcome.code is ErrorCode.kafka_storage_error:
            assert self.fault is not None or self.logs.problems
            self.refused.setdefault(name, set()).add(after)
        return False

    @rule(name=NAMES, partitions=st.integers(1, 3), fault=st.none() | FAULTS)
    def create_or_grow(self, name: str, partitions: int, fault: tuple[str, int] | None) -> None:
        if name in self.acknowledged:
            self.grow(name, partitions, fault)
        else:
            self.create(name, partitions, fault)

    @rule(name=NAMES, partitions=st.integers(1, 3), fault=st.none() | FAULTS)
    def create_or_delete(self, name: str, partitions: int, fault: tuple[str, int] | None) -> None:
        if name in self.acknowledged:
            self.delete(name, fault)
        else:
            self.create(name, partitions, fault)

    def create(self, name: str, partitions: int, fault: tuple[str, int] | None) -> None:
        work = self.controller.topics.create_topics([NewTopic(name, partitions)])
        if self.change(name, work, None, fault):
            topic = self.topics.get(name)
            assert topic is not None
            if self.ignores_case:
                assert name.swapcase() not in self.acknowledged
            assert not any(f"{name}-{at}" in self.foreign for at in range(partitions))
            assert topic.id not in {each.id for each in self.acknowledged.values()}
            assert all(log.end_offset == 0 for log in topic.partitions)
            self.acknowledged[name] = Expected(topic.id, partitions)
            self.records[name] = 0

    def grow(self, name: str, more: int, fault: tuple[str, int] | None) -> None:
        before = self.acknowledged[name]
        after = before._replace(partitions=before.partitions + more)
        work = self.controller.topics.create_partitions([NewPartitions(name, after.partitions)])
        if self.change(name, work, after, fault):
            self.acknowledged[name] = after

    def delete(self, name: str, fault: tuple[str, int] | None) -> None:
        async def work() -> list[Any]:
            refused = await self.controller.writer.change(
                self.controller.topics.delete_topics([name])
            )
            return [refused.get(name)]

        if self.change(name, work(), None, fault):
            del self.acknowledged[name], self.records[name]

    @rule(name=NAMES)
    def produce(self, name: str) -> None:
        if name not in self.acknowledged:
            return
        log = self.topics.log(name, 0)
        assert log is not None
        try:
            log.append(batch_of(b"a"), START)
        except OSError:
            assert self.fault is not None
        else:
            self.records[name] += 1

    @rule(name=NAMES, partition=st.integers(0, 3))
    def make_foreign(self, name: str, partition: int) -> None:
        directory = f"{name}-{partition}"
        path = f"{self.path}/{directory}"
        if self.fault is not None or os.path.exists(path) or self.ignores_case:
            return
        os.mkdir(path)
        content = directory.encode()
        descriptor = os.open(f"{path}/mine", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        for each in (path, str(self.path)):
            descriptor = os.open(each, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        self.foreign[directory] = content

    # Faults and restarts

    @precondition(lambda self: self.fault is not None)
    @rule()
    def mend_disk(self) -> None:
        self.mended()

    @rule()
    def restart(self) -> None:
        self.controller.close()
        self.end()
        self.fault = None
        self.start()

    @rule()
    def kill(self) -> None:
        before, former = self.path, self.logs
        # Threads may still be removing what is no partition's.
        shutil.copytree(before, self.move(), ignore=shutil.ignore_patterns("~*"))
        self.controller.close()
        self.fault = None
        former.close()
        self.record()
        self.start()

    @rule(seed=st.integers(0, 1_000))
    def lose_power(self, seed: int) -> None:
        former, operations = self.logs, len(self.disk.operations)
        self.disk.remains(operations, seed, self.move())
        self.controller.close()
        self.fault = None
        former.close()
        (self.path / ".lock").write_text("1\nanother-boot\n")
        self.record()
        self.start()
        self.settle()

    @rule(fault=FAULTS)
    def start_on_a_broken_disk(self, fault: tuple[str, int]) -> None:
        self.controller.close()
        self.fault = None
        self.end()
        self.fault = fault
        try:
            self.start()
        except (OSError, KohortError):
            self.fault = None
            self.start()
        self.mended()

    def settle(self) -> None:
        """Take what a power loss left of refused changes and of records that were not synced."""
        for name, possible in self.refused.items():
            topic = self.topics.get(name)
            found = topic and Expected(topic.id, len(topic.partitions))
            before = self.acknowledged.get(name)
            if found == before:
                continue
            if before is None:  # a refused creation has an id that nobody was told
                assert None in possible
                assert found is not None
                self.acknowledged[name] = found
                self.records[name] = 0
            else:
                assert found in possible
                if found is None:
                    del self.acknowledged[name], self.records[name]
                else:
                    self.acknowledged[name] = found
        self.refused.clear()
        for name, count in self.records.items():
            log = self.topics.log(name, 0)
            assert log is not None
            assert log.end_offset <= count
            self.records[name] = log.end_offset

    # What must hold

    @invariant()
    def topics_are_as_was_acknowledged(self) -> None:
        found = {each.name: Expected(each.id, len(each.partitions)) for each in self.topics.all()}
        assert found == self.acknowledged

    @invariant()
    def every_log_is_open_and_its_directory_marked(self) -> None:
        if self.fault is not None:
            return  # a log that was opened meanwhile is opened again later
        for topic in self.topics.all():
            for log in topic.partitions:
                log.ensure_open()
                at = log.topic_partition
                assert decode_mark((self.path / str(at) / MARK).read_bytes()) == topic.id
                assert log.end_offset == (0 if at.partition else self.records[topic.name])

    @invariant()
    def foreign_directories_are_untouched(self) -> None:
        for directory, content in self.foreign.items():
            assert os.listdir(self.path / directory) == ["mine"]
            assert (self.path / directory / "mine").read_bytes() == content


TestTopics = TopicsMachine.TestCase
TestTopics.settings = settings(max_examples=examples(30), stateful_step_count=25)
