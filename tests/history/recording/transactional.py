"""Transactions that commit offsets: by producers that take steps, and by a member."""

import sys
import threading
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from history.recording.broker import SESSION_MS
from history.recording.stage import Stage
from interop.built import BUILT
from interop.processes import PATIENCE_S, Process
from interop.programs import PROGRAMS, java

PRODUCERS = {
    "java": lambda: java("TransactionProgram"),
    "franz-go": lambda: [str(BUILT / "go" / "franzgo-transactions")],
    "kohort": lambda: [sys.executable, str(PROGRAMS / "kohort_transactions.py")],
}
"""Programs with the steps of TransactionProgram.java."""


class SteppingProducer:
    """A transactional producer of another client, which takes one step after the other."""

    def __init__(self, stage: Stage, client: str, name: str, timeout_ms: int = 30_000) -> None:
        self._answers: list[str] = []
        self._answered = threading.Condition()
        self._stage, self._name = stage, name
        command: Sequence[str] = [
            *PRODUCERS[client](),
            *(stage.broker.address, name, str(timeout_ms)),
        ]
        self._process = Process(name, command, stage.directory / f"{name}.log", self._hear)
        stage.adopt(self._process)
        self.step("init")

    def _hear(self, line: str) -> None:
        with self._answered:
            self._answers.append(line)
            self._answered.notify_all()

    def step(self, step: str) -> None:
        """Take a step; AssertionError if it fails."""
        self._process.stdin.write(f"{step}\n".encode())
        self._process.stdin.flush()
        with self._answered:
            assert self._answered.wait_for(lambda: bool(self._answers), PATIENCE_S), step
            answer = self._answers.pop()
        assert answer == "done", f"{self._name}: {step}: {answer}"
        self._stage.note(self._name, "", "step", what=step)

    def kill(self) -> None:
        """`kill -9`: what it has begun stays open until its timeout."""
        self._process.kill()
        self._stage.note(self._name, "", "gone", why="killed")


class TransactionalMember:
    """A librdkafka consumer whose offsets a transactional producer commits; every third is aborted
    and processed again.
    """

    def __init__(self, stage: Stage, name: str, group: str, topic: str, output: str) -> None:
        self._stage, self._name, self._group = stage, name, group
        self._output = output
        settings = {"bootstrap.servers": stage.broker.address, "log_level": 0}
        self._consumer = Consumer(
            settings
            | {
                "group.id": group,
                "client.id": name,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._producer = Producer(settings | {"transactional.id": name})
        self._producer.init_transactions(PATIENCE_S)
        stage.joins(name, group, topic, "confluent-kafka")
        self._consumer.subscribe([topic], on_assign=self._owns, on_revoke=self._revoked)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _owns(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        metadata = bytes(consumer.consumer_group_metadata() or bytes(11))
        self._stage.note(
            self._name,
            self._group,
            "owns",
            partitions=[f"{each.topic}-{each.partition}" for each in partitions],
            member=consumer.memberid(),
            generation=int.from_bytes(metadata[7:11], sys.byteorder, signed=True),
        )

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owns(consumer, [])

    def _run(self) -> None:
        count = 0
        while not self._over.is_set():
            messages = [each for each in self._consumer.consume(100, 0.5) if not each.error()]
            if messages:
                count += 1
                self._process(messages, aborts=count % 3 == 0)
        self._consumer.close()

    def _process(self, messages: list, *, aborts: bool) -> None:
        first: dict[tuple[str, int], int] = {}
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            at = message.topic(), message.partition()
            first.setdefault(at, message.offset())
            offsets[at] = message.offset() + 1
        self._producer.begin_transaction()
        try:
            for message in messages:
                self._producer.produce(self._output, message.value())
            self._producer.send_offsets_to_transaction(
                [TopicPartition(*at, offset) for at, offset in offsets.items()],
                self._consumer.consumer_group_metadata(),
                PATIENCE_S,
            )
            if not aborts:
                self._producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            self._note("failed", what=str(error))
            aborts = True
        if aborts:
            self._producer.abort_transaction(PATIENCE_S)
            owned = {(each.topic, each.partition) for each in self._consumer.assignment()}
            for at, offset in first.items():
                if at in owned:
                    self._consumer.seek(TopicPartition(*at, offset))
        self._note(
            "aborted" if aborts else "committed",
            offsets={f"{topic}-{number}": each for (topic, number), each in offsets.items()},
        )

    def _note(self, event: str, **fields: object) -> None:
        self._stage.note(self._name, self._group, event, **fields)

    def leave(self) -> None:
        """Close the consumer; back when it has left."""
        self._over.set()
        self._thread.join(PATIENCE_S)
        self._note("gone", why="left")
