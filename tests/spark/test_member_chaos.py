"""Three queries in one group of 12 partitions: started, stopped, killed, restarted from
checkpoints, at random.
"""

import os
import random
import signal
import time
from collections import Counter

import pytest

from spark.processes import source_processes
from spark.streams import Stream, wait_for

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1_200)]

PARTITIONS = 12
NAMES = ("a", "b", "c")


class Chaos:
    """The queries, what was written for them, and what each kill may have repeated."""

    def __init__(self, jvm, streams, topics, topic, seed):
        self.jvm = jvm
        self.streams, self.topics, self.topic = streams, topics, topic
        self.random = random.Random(seed)
        self.running = {}  # name -> (query, process)
        self.written = Counter()
        self.kills = 0
        # (partition, offset) that were read, or about to be, by a query that was killed
        self.in_doubt = set()

    def step(self):
        stopped = [name for name in NAMES if name not in self.running]
        running = list(self.running)
        events = [self.start] * bool(stopped) + [self.stop, self.kill] * (len(running) > 1)
        self.random.choice(events)(self.random.choice(stopped or running), running)
        self.produce()

    def start(self, name, _running):
        before = source_processes(self.jvm)
        query = self.streams[name].start(processingTime="100 milliseconds")
        wait_for(lambda: source_processes(self.jvm) - before, "a source process", query)
        (process,) = source_processes(self.jvm) - before
        self.running[name] = query, process

    def stop(self, _name, running):
        """In order: everything is read and committed, and the query leaves."""
        self.wait_until_read()
        query, _ = self.running.pop(self.random.choice(running))
        query.stop()

    def kill(self, _name, running):
        """In the middle of things: records were just written."""
        self.produce()
        time.sleep(self.random.random())
        name = self.random.choice(running)
        query, process = self.running.pop(name)
        os.kill(process, signal.SIGKILL)
        self.kills += 1
        done = self.committed()
        self.in_doubt |= {
            (partition, offset)
            for partition, end in self.written.items()
            for offset in range(done.get(partition, 0), end)
        }
        try:
            query.stop()
        except Exception:  # what it failed with is what we did to it
            assert query.exception() is not None

    def produce(self):
        for partition in self.random.sample(range(PARTITIONS), 6):
            count = self.random.randint(1, 40)
            self.topics.fill(self.topic, {partition: [b"v"] * count})
            self.written[partition] += count

    def committed(self):
        return self.topics.committed(self.topic).get(self.topic, {})

    def wait_until_read(self):
        wait_for(
            lambda: {p: at for p, at in self.committed().items() if at} == self.written,
            "read and committed",
        )


@pytest.mark.parametrize(
    ("topics", "events"),
    [("kohort", 20), pytest.param("kohort", 50, marks=pytest.mark.long), ("kafka", 10)],
    indirect=["topics"],
)
def test_nothing_is_lost_and_only_killed_batches_are_repeated(session, topics, tmp_path, events):
    topic = "chaos"
    topics.create(topic, PARTITIONS)
    options = {
        "subscribe": topic, "group__id": topic, "startingOffsets": "earliest",
        "kafka__session__timeout__ms": "6000", "kafka__heartbeat__interval__ms": "500",
    }  # fmt: skip
    streams = {name: Stream(session, topics.address, tmp_path / name, **options) for name in NAMES}
    chaos = Chaos(session.sparkContext._gateway.proc.pid, streams, topics, topic, seed=7)
    try:
        for _ in range(events):
            chaos.step()
        for name in set(NAMES) - set(chaos.running):
            chaos.start(name, [])
        chaos.wait_until_read()
    finally:
        for query in session.streams.active:
            query.stop()
    assert chaos.kills > events // 5
    found = Counter()
    for stream in streams.values():
        rows = Counter((row.partition, row.offset) for row in stream.rows())
        assert max(rows.values(), default=1) == 1, (
            "a sink that is exactly once has each of its records once"
        )
        found += rows
    assert set(found) == {
        (partition, offset) for partition, end in chaos.written.items() for offset in range(end)
    }
    repeated = {record for record, times in found.items() if times > 1}
    assert repeated <= chaos.in_doubt
