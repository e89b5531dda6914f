"""A member of the same group with another library: librdkafka, through confluent-kafka.

    python -m kohort_demo.librdkafka_member BOOTSTRAP GROUP TOPIC CLIENT_ID PACE

It does the same work (`work.py`), and leaves in good order on SIGTERM too.
"""

import signal
import time
from types import FrameType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kohort_demo.work import (
    COMMIT_INTERVAL_MS,
    FETCH_BYTES,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Job,
    count,
    say,
)

BATCH = 1_000
PATIENCE = 300.0
"""Seconds that one request may take, and the last commit of a partition with all its attempts."""
AGAIN = 0.05


class LibrdkafkaMember:
    def __init__(self, job: Job) -> None:
        self._pace = job.pace
        self._ends: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._uncommitted: dict[int, int] = {}
        self._paused: set[int] = set()
        self._topic = job.topic
        self._leaving = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": job.bootstrap,
                "group.id": job.group,
                "client.id": job.client_id,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "max.partition.fetch.bytes": FETCH_BYTES,
                # A short queue, filled at once.
                "queued.min.messages": 2 * BATCH,
                "fetch.queue.backoff.ms": 10,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask_to_leave)
        self._consumer.subscribe(
            [self._topic], on_assign=self._take, on_revoke=self._give, on_lost=self._drop
        )
        committed_at = time.monotonic()
        while not self._leaving:
            behind = self._keep_pace()
            self._process(self._consumer.consume(min(max(behind, 1), BATCH), 0.05))
            if time.monotonic() - committed_at >= COMMIT_INTERVAL_MS / 1_000:
                self._commit()
                committed_at = time.monotonic()
        self._consumer.close()

    def _ask_to_leave(self, _number: int, _frame: FrameType | None) -> None:
        self._leaving = True

    def _take(self, consumer: Consumer, added: list[TopicPartition]) -> None:
        for known in consumer.committed(added, PATIENCE):
            _low, self._ends[known.partition] = consumer.get_watermark_offsets(known, PATIENCE) or (
                0,
                0,
            )
            self._next[known.partition] = max(known.offset, 0)
        consumer.incremental_assign(added)

    def _give(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        until = time.monotonic() + PATIENCE
        while self._commit() == KafkaError.REBALANCE_IN_PROGRESS and time.monotonic() < until:
            time.sleep(AGAIN)  # between the join and the sync of a generation no commit is taken
        self._drop(consumer, revoked)

    def _drop(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        # librdkafka remembers a pause beyond the assignment: the partition would stand still once
        # it came back.
        consumer.resume([gone for gone in lost if gone.partition in self._paused])
        for gone in lost:
            for known in (self._ends, self._next, self._uncommitted):
                known.pop(gone.partition, None)
            self._paused.discard(gone.partition)
        consumer.incremental_unassign(lost)

    def _keep_pace(self) -> int:
        """Pause the partitions that are ahead of time; how many records the others are behind."""
        behind = {at: self._pace.due(self._ends[at]) - offset for at, offset in self._next.items()}
        late = {at for at, records in behind.items() if records > 0}
        if resumed := late & self._paused:
            self._consumer.resume([TopicPartition(self._topic, at) for at in resumed])
        if ahead := behind.keys() - late - self._paused:
            self._consumer.pause([TopicPartition(self._topic, at) for at in ahead])
        self._paused = behind.keys() - late
        return sum(behind[at] for at in late)

    def _process(self, messages: list[Message]) -> None:
        batches: dict[int, list[Message]] = {}
        for message in messages:
            if message.error() is None:
                batches.setdefault(int(message.partition() or 0), []).append(message)
        for partition, batch in batches.items():
            first, last = batch[0].offset(), batch[-1].offset()
            assert first is not None
            assert last is not None
            say(partition, first, last + 1, count(message.value() for message in batch))
            self._next[partition] = self._uncommitted[partition] = last + 1

    def _commit(self) -> int:
        """The error's code, 0 if all went well. What failed is committed the next time."""
        offsets = [
            TopicPartition(self._topic, at, offset) for at, offset in self._uncommitted.items()
        ]
        if offsets:
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                return int(error.args[0].code())
            self._uncommitted.clear()
        return 0


if __name__ == "__main__":
    LibrdkafkaMember(Job.told()).run()
