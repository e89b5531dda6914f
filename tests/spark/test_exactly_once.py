"""`delivery=exactly_once` through Spark: a driver that dies at any point of a micro-batch, tasks
that fail, and writes that are not streams. Readers are of `read_committed`.
"""

import json
import shutil
import signal
from collections import Counter
from itertools import count

import pytest

from kohort.spark import fetching
from kohort.spark.offset_queries import OffsetQueries
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange
from spark.pausing import Points
from spark.processes import Driver
from spark.streams import PATIENCE_S, Stream, wait_for

pytestmark = pytest.mark.clients

_numbers = count()
PARTITIONS = 2
EACH = 60


@pytest.fixture
def source(topics):
    name = f"exactly-once-source-{next(_numbers)}"
    topics.create(name, PARTITIONS)
    topics.fill(
        name, {part: [b"%d-%d" % (part, at) for at in range(EACH)] for part in range(PARTITIONS)}
    )
    return name


@pytest.fixture
def target(topics, source):
    name = f"{source}-target"
    topics.create(name, 3)
    return name


@pytest.fixture
def values(topics, target):
    """{value: how often it is there}, read without Spark; on Apache Kafka a little after a
    commit.
    """

    def read(isolation="read_committed"):
        options = {
            "kafka.bootstrap.servers": topics.address,
            "subscribe": target,
            "kafka.isolation.level": isolation,
        }
        reading = parse_read(options, streaming=False)
        queries = OffsetQueries(reading)
        found = Counter()
        for tp, end in queries.latest(queries.partitions()).items():
            if end:
                parts = fetching.read(reading, OffsetRange(tp.topic, tp.partition, 0, end))
                found.update(value for part in parts for value in part["value"].to_pylist())
        return found

    return read


EVERY_ROW_ONCE = Counter(b"%d-%d" % (part, at) for part in range(PARTITIONS) for at in range(EACH))


@pytest.fixture
def stream(session, topics, tmp_path, source):
    return Stream(session, topics.address, tmp_path, **options_of(source))


def options_of(source):
    """Four micro-batches."""
    return {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}


def member_of(source, sink):
    """Options of a member whose offsets are in the transactions of that sink."""
    return options_of(source) | {
        "group.id": source,
        "transactionalSink": sink,
        "kafka.session.timeout.ms": "6000",
        "kafka.heartbeat.interval.ms": "500",
    }


def finish(stream, target):
    query = stream.write_to(target, availableNow=True)
    assert query.awaitTermination(PATIENCE_S), query.lastProgress


class TestADriverThatDies:
    @pytest.mark.parametrize(
        "point", [pytest.param("before", marks=pytest.mark.long), "sent", "after"]
    )
    def test_a_driver_that_dies_and_restarts_leaves_every_row_once(
        self, topics, source, target, stream, values, tmp_path, point
    ):
        """Before it begins the transaction; with the transaction open; and when the transaction is
        committed, but not the checkpoint.
        """
        options = options_of(source) | {"to": target, "dies": point}
        with Driver(topics.address, tmp_path, options) as driver:
            driver.await_started()
            wait_for(lambda: "jvm" not in driver.alive(), "dead")
        committed = 60 if point == "after" else 30
        wait_for(lambda: values().total() == committed, "committed")
        assert set(values().values()) == {1}
        assert values("read_uncommitted").total() == (30 if point == "before" else 60)
        assert not (tmp_path / "checkpoint" / "commits" / "1").exists()
        finish(stream, target)
        wait_for(lambda: values() == EVERY_ROW_ONCE, "every row once")

    @pytest.mark.parametrize("point", ["sent", "after"])
    def test_a_driver_that_dies_as_a_member_leaves_every_row_once(
        self, session, topics, source, target, values, tmp_path, point
    ):
        """The offsets of the group tell what is committed, not the checkpoint."""
        options = member_of(source, target)
        with Driver(topics.address, tmp_path, options | {"to": target, "dies": point}) as driver:
            driver.await_started()
            wait_for(lambda: "jvm" not in driver.alive(), "dead")
        committed = 60 if point == "after" else 30
        stream = Stream(session, topics.address, tmp_path, **options)
        finish(stream, target)
        wait_for(lambda: values() == EVERY_ROW_ONCE, "every row once")
        assert topics.committed(source) == {source: dict.fromkeys(range(PARTITIONS), EACH)}
        offsets = (tmp_path / "checkpoint" / "offsets" / "2").read_text().splitlines()[-1]
        begun = json.loads(offsets).get("@begin", {}).get(source, {})
        assert sum(begun.values()) == (0 if point == "after" else committed)

    def test_a_driver_that_dies_leaves_its_partitions_to_another_query(
        self, session, topics, source, target, values, tmp_path
    ):
        """The other one takes its partitions over, with what it had sent but not committed."""
        options = member_of(source, target) | {"to": target, "dies": "sent"}
        other = Stream(
            session, topics.address, tmp_path / "other", **member_of(source, f"{target}-other")
        )
        with Driver(topics.address, tmp_path, options) as driver:
            driver.await_started()
            wait_for(lambda: "jvm" not in driver.alive(), "dead")
            query = other.write_to(target, f"{target}-other", processingTime="100 milliseconds")
            wait_for(lambda: values() == EVERY_ROW_ONCE, "every row once", query)
        more = {part: [b"%d-more" % part] for part in range(PARTITIONS)}
        topics.fill(source, more)
        again = Stream(session, topics.address, tmp_path, **member_of(source, target))
        queries = [query, again.write_to(target, processingTime="100 milliseconds")]
        everything = EVERY_ROW_ONCE + Counter(value for each in more.values() for value in each)
        wait_for(lambda: values() == everything, "every row once", queries[1])
        for each in queries:
            each.stop()
        assert values() == everything


def test_a_source_that_is_killed_while_tasks_run(session, topics, source, target, values, tmp_path):
    """The sink does not take its micro-batch for one without a member."""
    points = Points(tmp_path)
    points.arm("in a task")
    options = member_of(source, target)
    with Driver(topics.address, tmp_path, options | {"to": target, "pauses": str(tmp_path)}) as at:
        at.await_started()
        wait_for(points.reached.exists, "in a task")
        at.kill(signal.SIGKILL, "source")
        points.go()
        wait_for(lambda: "jvm" not in at.alive(), "ended by an error")
    assert values("read_uncommitted") == {}
    finish(Stream(session, topics.address, tmp_path, **options), target)
    wait_for(lambda: values() == EVERY_ROW_ONCE, "every row once")


def test_an_older_copy_of_the_checkpoint_is_refused(
    stream, topics, source, target, values, tmp_path
):
    """Its next number is committed, and stands for other records now."""

    def more(name):
        topics.fill(source, {0: [name % at for at in range(10)]})
        return Counter(name % at for at in range(10))

    checkpoint, older, newer = (tmp_path / name for name in ("checkpoint", "older", "newer"))
    finish(stream, target)
    shutil.copytree(checkpoint, older)
    everything = EVERY_ROW_ONCE + more(b"more-%d")
    finish(stream, target)
    written = everything.copy()
    everything += more(b"again-%d")
    checkpoint.rename(newer)
    older.rename(checkpoint)
    with pytest.raises(Exception, match="the checkpoint is an older copy"):
        finish(stream, target)
    assert values() == written
    checkpoint.rename(older)
    newer.rename(checkpoint)
    finish(stream, target)
    wait_for(lambda: values() == everything, "every row once")


def test_the_end_of_a_checkpoint_is_lost(stream, target, values, tmp_path):
    """As if the driver had died after each of its last two micro-batches, one after the other."""
    finish(stream, target)
    for _ in range(2):
        last = max(
            (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda at: int(at.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink()
        finish(stream, target)
    wait_for(lambda: values() == EVERY_ROW_ONCE, "every row once")


class TestBatches:
    @pytest.fixture
    def save(self, topics, target):
        def write(frame):
            options = {
                "kafka.bootstrap.servers": topics.address,
                "topic": target,
                "delivery": "exactly_once",
                "kafka.transactional.id": target,
            }
            frame.write.format("kohort").options(**options).mode("append").save()

        return write

    def test_all_rows_of_many_tasks(self, session, save, values):
        for _ in range(2):
            save(session.range(6_000, numPartitions=5).selectExpr("rpad(id, 300, 'x') value"))
        wait_for(lambda: values().total() == 12_000, "committed")
        assert set(values().values()) == {2}

    def test_no_row_of_a_batch_is_written_if_one_task_fails(self, session, save, values):
        rows = session.range(6_000, numPartitions=5)
        failing = rows.selectExpr(
            "if(id = 5999, raise_error('this task fails'), rpad(id, 300, 'x')) value"
        )
        with pytest.raises(Exception, match="this task fails"):
            save(failing)
        assert values("read_uncommitted") == {}

    def test_no_row_of_a_batch_is_written_if_a_partition_does_not_exist(
        self, session, save, values
    ):
        rows = session.range(6_000, numPartitions=5)
        with pytest.raises(Exception, match="a row is for partition 9"):
            save(
                rows.selectExpr(
                    "rpad(id, 300, 'x') value", "cast(if(id = 5999, 9, id % 3) as int) partition"
                )
            )
        assert values("read_uncommitted") == {}
