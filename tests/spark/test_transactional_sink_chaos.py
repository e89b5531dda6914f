"""`transactionalSink` without Spark: two queries of a group, to which at each step of a micro-batch
anything may happen, also to their topic. Each record is in the target once, in order, as librdkafka
reads it with `read_committed`.
"""

import random
from collections import Counter
from contextlib import closing, suppress

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kohort.errors import KohortError
from spark.servers import KafkaServer, KohortServer
from spark.streams import wait_for
from spark.test_transactional_sink import Pipe, directory  # noqa: F401
from spark.topics import Topics

MOST_PARTITIONS = 5


class NumberedPipe(Pipe):
    """Records are (how often the topic was created, partition, number) as text."""

    def __init__(self, topics):
        self.partitions, self.created, self.may_be_lost = 2, 0, set()
        self.ends = Counter()
        super().__init__(topics)

    def produce(self):
        for part in range(self.partitions):
            first = self.ends[self.created, part]
            values = [b"%d %d %d" % (self.created, part, first + at) for at in range(7)]
            self.topics.fill(self.source, {part: values})
            self.written.update(values)
            self.ends[self.created, part] += len(values)

    def grow(self):
        if self.partitions < MOST_PARTITIONS:
            self.partitions += 1
            self.topics.grow(self.source, self.partitions)

    def trim(self):
        """All that there is, read or not."""
        self.may_be_lost |= self.written.keys()
        for part in range(self.partitions):
            self.topics.trim(self.source, part, self.ends[self.created, part])

    def create_again(self):
        self.may_be_lost |= self.written.keys()
        self.topics.delete(self.source)
        self.topics.create(self.source, self.partitions)
        self.created += 1

    def values(self):
        """Those of committed transactions, in the order of offsets."""
        config = {"bootstrap.servers": self.topics.address, "group.id": "judge"}
        config |= {"isolation.level": "read_committed", "enable.partition.eof": True}
        found = []
        with closing(Consumer(config)) as consumer:
            consumer.assign([TopicPartition(self.target, 0, 0)])
            while not (message := consumer.poll(60)).error():
                found.append(message.value())
        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        return found

    def is_all_there(self):
        found = [tuple(map(int, value.split())) for value in self.values()]
        last = {}
        for *place, number in found:
            assert number > last.get(tuple(place), -1), f"{place} {number} after {last}"
            last[tuple(place)] = number
        there = {b"%d %d %d" % each for each in found}
        assert there <= self.written.keys()
        return self.written.keys() - self.may_be_lost <= there


class Chaos:
    def __init__(self, server, seed):
        self.server, self.random = server, random.Random(seed)
        self.pipe = NumberedPipe(Topics(server.address))
        self.queries = {name: self._query(name) for name in "ab"}
        self.older = {name: [{}] for name in "ab"}
        self.struck = Counter()

    def _query(self, name, checkpoint=None):
        return self.pipe.query(name, checkpoint, failOnDataLoss="false")

    def _starts_again(self, name, checkpoint=None):
        query = self.queries[name]
        query.dies()
        self.queries[name] = self._query(name, checkpoint or query.checkpoint)

    def step(self):
        """A micro-batch, before whose steps something may happen."""
        self.pipe.produce()
        name = self.random.choice("ab")
        at, strike = self.random.choice(["read", "commit", "end"]), self.random.choice(STRIKES)
        query = self.queries[name]
        try:
            if query.plan_or_repeat() is False:
                return
            for work in (query.read, query.commit, None):
                if at == (work.__name__ if work else "end"):
                    self.struck[f"{strike.__name__} before {at}"] += 1
                    strike(self, name)
                    if self.queries[name] is not query:
                        return
                if work is not None:
                    work()
        except KohortError:
            self._starts_again(name)

    def dies(self, name):
        self._starts_again(name)

    def source_is_killed(self, name):
        self.queries[name].is_killed()

    def server_dies(self, _):
        self.server.is_killed()

    def has_an_older_checkpoint(self, name):
        older, self.older[name] = self.older[name], list(self.queries[name].checkpoint)
        self._starts_again(name, older)

    def has_a_new_checkpoint(self, name):
        self._starts_again(name, [{}])

    def partitions_grow(self, _):
        self.pipe.grow()

    def retention_passes(self, _):
        self.pipe.trim()

    def topic_is_created_again(self, _):
        self.pipe.create_again()

    def other_reads_on(self, name):
        (other,) = set("ab") - {name}
        with suppress(KohortError):
            self.queries[other].plan_or_repeat()

    def end(self):
        self.pipe.produce()

        def is_read():
            for name in self.queries:
                try:
                    query = self.queries[name]
                    if query.plan_or_repeat():
                        query.read()
                        query.commit()
                except KohortError:
                    self._starts_again(name)
            return self.pipe.is_all_there()

        for name in self.queries:
            self._starts_again(name)
        wait_for(is_read, "read", within_s=600)


STRIKES = (
    Chaos.dies, Chaos.source_is_killed, Chaos.server_dies, Chaos.has_an_older_checkpoint,
    Chaos.has_a_new_checkpoint, Chaos.partitions_grow, Chaos.retention_passes,
    Chaos.topic_is_created_again, Chaos.other_reads_on,
)  # fmt: skip


KAFKA = pytest.mark.clients
LONG = pytest.mark.long


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("kind", "seed", "events"),
    [
        (KohortServer, 1, 4),
        pytest.param(KohortServer, 2, 99, marks=LONG),
        pytest.param(KafkaServer, 1, 4, marks=KAFKA),
        pytest.param(KafkaServer, 2, 99, marks=[KAFKA, LONG]),
    ],
)
def test_each_record_is_there_once_and_in_order(tmp_path, kind, seed, events):
    server = kind(tmp_path)
    try:
        chaos = Chaos(server, seed)
        try:
            for _ in range(events):
                chaos.step()
            chaos.end()
            print(dict(sorted(chaos.struck.items())))
        finally:
            for query in chaos.pipe.queries:
                query.dies()
    finally:
        server.stop()
