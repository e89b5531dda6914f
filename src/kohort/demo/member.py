"""One member of the group: a process with a librdkafka consumer that counts flights and their delays.

    python -m kohort.demo.member BOOTSTRAP GROUP TOPIC CLIENT_ID STARTED SECONDS

It is slow on purpose: every partition is spread over SECONDS from STARTED (the machine's monotonic clock) on, so that
there is something to see. A member that falls behind, because a partition had no owner for a while, catches up at
full speed. SIGTERM makes it leave in good order. It says on stdout, one JSON line each, what it processed:

    {"partition": 3, "first": 1200, "next": 1350, "at": 81.25, "carriers": {"UA": [150, 148, 1790]}}

`carriers` has flights, flights that left, and their minutes of delay. A batch is said before it is committed, and
a commit is always at the end of a batch: whoever takes the partition over starts at the beginning of one.
"""

import json
import signal
import sys
import time
from collections.abc import Iterable
from types import FrameType

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kohort.demo.flights import departure_delay

SESSION_TIMEOUT_MS = 6_000
COMMIT_SECONDS = 1.5
BATCH = 1_000
PATIENCE = 5.0


class Pace:
    """How far a partition should be by now."""

    def __init__(self, started: float, seconds: float) -> None:
        self._started = started
        self._seconds = seconds

    def due(self, end: int, now: float) -> int:
        """The offset that a partition with this end should have reached."""
        return int(end * min(1.0, max(0.0, (now - self._started) / self._seconds)))


class Member:
    def __init__(self, bootstrap: str, group: str, topic: str, client_id: str, pace: Pace) -> None:
        self._pace = pace
        self._ends: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._uncommitted: dict[int, int] = {}
        self._paused: set[int] = set()
        self._topic = topic
        self._leaving = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": client_id,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                # Small fetches and a short queue, filled at once: all partitions move on together.
                "max.partition.fetch.bytes": 65_536,
                "queued.min.messages": 2 * BATCH,
                "fetch.queue.backoff.ms": 10,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask_to_leave)
        self._consumer.subscribe([self._topic], on_assign=self._take, on_revoke=self._give, on_lost=self._drop)
        committed_at = time.monotonic()
        while not self._leaving:
            behind = self._keep_pace()
            self._process(self._consumer.consume(min(max(behind, 1), BATCH), 0.05))
            if time.monotonic() - committed_at >= COMMIT_SECONDS:
                self._commit()
                committed_at = time.monotonic()
        self._consumer.close()

    def _ask_to_leave(self, _number: int, _frame: FrameType | None) -> None:
        self._leaving = True

    def _take(self, consumer: Consumer, added: list[TopicPartition]) -> None:
        for known in consumer.committed(added, PATIENCE):
            _low, self._ends[known.partition] = consumer.get_watermark_offsets(known, PATIENCE) or (0, 0)
            self._next[known.partition] = max(known.offset, 0)
        consumer.incremental_assign(added)

    def _give(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._commit()
        self._drop(consumer, revoked)

    def _drop(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        for gone in lost:
            for known in (self._ends, self._next, self._uncommitted):
                known.pop(gone.partition, None)
            self._paused.discard(gone.partition)
        consumer.incremental_unassign(lost)

    def _keep_pace(self) -> int:
        """Pause the partitions that are ahead of time; how many records the others are behind."""
        now = time.monotonic()
        behind = {at: self._pace.due(self._ends[at], now) - offset for at, offset in self._next.items()}
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

    def _commit(self) -> None:
        offsets = [TopicPartition(self._topic, at, offset) for at, offset in self._uncommitted.items()]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # the group is rebalancing: the next commit has these offsets too, or their next owner
        self._uncommitted.clear()


def count(values: Iterable[bytes | None]) -> dict[str, tuple[int, int, int]]:
    """Per carrier: flights, flights that left, minutes of delay."""
    counts: dict[str, tuple[int, int, int]] = {}
    for value in values:
        if value is not None:
            carrier, delay = departure_delay(value)
            flights, left, minutes = counts.get(carrier.decode(), (0, 0, 0))
            counts[carrier.decode()] = (flights + 1, left + (delay is not None), minutes + (delay or 0))
    return counts


def say(partition: int, first: int, following: int, carriers: dict[str, tuple[int, int, int]]) -> None:
    told = {"partition": partition, "first": first, "next": following, "at": time.monotonic(), "carriers": carriers}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main() -> None:
    bootstrap, group, topic, client_id, started, seconds = sys.argv[1:]
    Member(bootstrap, group, topic, client_id, Pace(float(started), float(seconds))).run()


if __name__ == "__main__":
    main()
