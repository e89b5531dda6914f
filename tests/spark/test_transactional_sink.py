"""`transactionalSink` without Spark: a member's offsets in the transaction of its rows, also if a
driver dies or is late. A `Query` calls source and sink as Spark does, with a checkpoint.
"""

import asyncio
import fcntl
import os
import random
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pyarrow as pa
import pytest
from pyspark.core.files import SparkFiles
from pyspark.sql.streaming.datasource import ReadMaxRows

from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.group_metadata import GroupMetadata
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce import Producer
from kohort.errors import KohortError
from kohort.spark import fetching, writing
from kohort.spark.member_stream import MemberStreamReader
from kohort.spark.offset_queries import OffsetQueries
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange
from kohort.spark.row_spool import SpoolDirectory
from kohort.spark.sink_offsets import SinkOffsets, member_plan, plan_token
from kohort.spark.write_options import parse_write
from kohort.spark.writing import Writing
from kohort.types import TopicPartition
from spark.servers import SETTINGS, KohortServer
from spark.streams import wait_for
from spark.topics import Topics

PARTITIONS = 2
EACH = 10
LIMIT = 8
"""Records of a micro-batch."""

_numbers = count()


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Of temporary files, and of the files of a SparkContext."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", new_driver(tmp_path))


def new_driver(directory):
    """The files of a source of another SparkContext."""
    name = f"userFiles-{next(_numbers)}"
    (directory / name).mkdir()
    return str(directory / name / "streaming_job")


@pytest.fixture
def in_another_driver(tmp_path, monkeypatch):
    """What runs in it has a SparkContext of its own."""
    directory = new_driver(tmp_path)

    @contextmanager
    def there():
        with monkeypatch.context() as patch:
            patch.setattr(SparkFiles, "_root_directory", directory)
            yield

    return there


class Query:
    """One driver: its source joins at the first trigger. `checkpoint` is what Spark keeps."""

    def __init__(self, pipe, transactional_id, checkpoint=None, **options):
        given = pipe.servers | {
            "subscribe": pipe.source,
            "group.id": pipe.source,
            "startingOffsets": "earliest",
            "kafka.session.timeout.ms": "6000",
            "kafka.heartbeat.interval.ms": "200",
            "kafka.max.poll.interval.ms": "20000",
            "transactionalSink": transactional_id,
        }
        self.source = MemberStreamReader(parse_read(given | options, streaming=True))
        sink = {"topic": pipe.target, "delivery": "exactly_once"}
        sink |= {"kafka.transactional.id": transactional_id}
        self.sink = Writing(parse_write(pipe.servers | sink), ("value",), SpoolDirectory())
        self.checkpoint = [{}] if checkpoint is None else checkpoint
        """The ends of micro-batches; the last one may be unfinished."""
        self._task = None
        self._has_joined = False

    def plan(self):
        """Begin a micro-batch; False if there is nothing to read. Joins before the first one."""
        if not self._has_joined:
            self.join()
        start = self.checkpoint[-1]
        end = self.source.latestOffset(start, ReadMaxRows(LIMIT))
        if end != start:
            self.checkpoint.append(end)
        return end != start

    def read(self, keep=True):
        """The task of the last micro-batch, whose rows are dropped unless it is to `keep` them."""
        start, end = self.checkpoint[-2:]
        planned = self.source.partitions(start, end)
        batches = (batch for each in planned for batch in self.source.read(each) if keep)
        name = self.sink.options.transactional_id
        sink = replace(self.sink, plan_token=plan_token(name))
        self._task = replace(sink.task(batches), query_id=name)

    def commit(self):
        self.sink.commit([self._task], len(self.checkpoint) - 2)

    def join(self):
        self.source.getDefaultReadLimit()
        self._has_joined = True

    def run(self):
        """Until all of its partitions is read."""
        while self.plan():
            self.read()
            self.commit()

    def is_killed(self):
        """Its process beside the driver, which cannot do anything about it."""
        fcntl.flock(self.source._member._sink._lock, fcntl.LOCK_UN)

    def dies(self):
        """As its process beside the driver sees it; `checkpoint` is left."""
        self.source.stop()

    def plan_or_repeat(self):
        """As `plan`; Spark, started again, repeats the micro-batch that had not ended."""
        if self._has_joined or len(self.checkpoint) == 1:
            return self.plan()
        self.join()
        return True

    def again(self):
        """Spark, started again."""
        self.plan_or_repeat()
        self.read()
        self.commit()
        self.run()


class Pipe:
    """Two topics, and the queries between them."""

    def __init__(self, topics):
        self.topics = topics
        self.source = f"transactional-sink-{next(_numbers)}"
        self.target = f"{self.source}-target"
        self.servers = {"kafka.bootstrap.servers": topics.address}
        topics.create(self.source, PARTITIONS)
        topics.create(self.target)
        self.written = Counter()
        self.produce()
        self.queries = []

    def produce(self):
        values = {part: [os.urandom(8) for _ in range(EACH)] for part in range(PARTITIONS)}
        self.topics.fill(self.source, values)
        self.written.update(value for found in values.values() for value in found)

    def query(self, name="a", checkpoint=None, **options):
        self.queries.append(Query(self, f"{self.source}-{name}", checkpoint, **options))
        return self.queries[-1]

    def committed(self):
        return self.topics.committed(self.source, stable=True).get(self.source, {})

    def finish(self, *queries):
        """All is read, and each record is written once."""
        total = self.written.total() // PARTITIONS

        def is_read():
            for query in queries:
                query.run()
            return self.committed() == dict.fromkeys(range(PARTITIONS), total)

        wait_for(is_read, "read")
        assert self.rows() == self.written

    def rows(self):
        """{value: how often it is there} for readers of committed transactions, once all ended."""
        return Counter(self.values())

    def values(self):
        """Those of committed transactions, in the order of offsets."""
        given = self.servers | {"subscribe": self.target}
        reading = parse_read(given, streaming=False)
        stable = replace(reading, isolation="read_committed")
        wait_for(lambda: _ends(reading) == _ends(stable), "all ended")
        return [
            value
            for tp, end in _ends(stable).items()
            if end
            for part in fetching.read(stable, OffsetRange(tp.topic, tp.partition, 0, end))
            for value in part["value"].to_pylist()
        ]


def plan_of(name):
    return member_plan(name, plan_token(name))


def _ends(reading):
    queries = OffsetQueries(reading)
    return queries.latest(queries.partitions())


@pytest.fixture
def pipe(topics):
    found = Pipe(topics)
    yield found
    for query in found.queries:
        query.dies()


def test_offsets_are_committed_with_the_rows(pipe):
    query = pipe.query()
    assert query.plan()
    query.read()
    assert pipe.committed() == {0: 0, 1: 0}, "where it begins, before it reads"
    query.commit()
    assert sum(pipe.committed().values()) == LIMIT == pipe.rows().total()
    query.run()
    assert pipe.rows() == pipe.written
    assert pipe.committed() == {0: EACH, 1: EACH}


def test_a_micro_batch_without_rows_is_committed(pipe):
    query = pipe.query()
    assert query.plan()
    query.read(keep=False)
    query.commit()
    assert sum(pipe.committed().values()) == LIMIT
    assert pipe.rows() == {}


class TestADriverThatDies:
    def test_a_driver_that_dies_before_its_commit_writes_each_row_once(self, pipe):
        """Spark's checkpoint has the end of the micro-batch, which nobody has written."""
        query = pipe.query()
        query.plan()
        query.read()
        query.dies()
        again = pipe.query(checkpoint=query.checkpoint)
        again.again()
        assert pipe.rows() == pipe.written

    def test_a_driver_that_dies_before_the_commit_of_the_last_records_writes_them_once(self, pipe):
        """They are read again up to the same end, which Spark has to take for another one."""
        query = pipe.query()
        query.run()
        pipe.produce()
        limit = ReadMaxRows(1000)
        query.checkpoint.append(query.source.latestOffset(query.checkpoint[-1], limit))
        query.dies()
        pipe.query(checkpoint=query.checkpoint).again()
        assert pipe.rows() == pipe.written

    def test_a_driver_that_dies_after_its_commit_writes_each_row_once(self, pipe):
        query = pipe.query()
        query.plan()
        query.read()
        query.commit()
        query.dies()
        pipe.query(checkpoint=query.checkpoint).again()
        assert pipe.rows() == pipe.written

    def test_an_open_transaction_of_a_dead_driver_ends_before_the_group_is_joined(self, pipe):
        """Otherwise the group's offsets would not be known until it times out."""
        query = pipe.query()
        query.plan()

        async def leaves_a_transaction():
            config = ClientConfig(bootstrap=pipe.topics.address)
            producer = Producer(config, transactional_id=f"{pipe.source}-a")
            transaction = await producer.transaction().__aenter__()
            await producer.send_and_wait(pipe.target, b"of nobody")
            found = plan_of(f"{pipe.source}-a")
            await transaction.commit_offsets(found.offsets, found.group)
            await producer.close(timeout_ms=0)

        asyncio.run(leaves_a_transaction())
        query.dies()
        pipe.query(checkpoint=query.checkpoint).again()
        assert pipe.rows() == pipe.written

    def test_records_of_a_dead_driver_are_written_by_another_query(self, pipe):
        """The records of its unfinished micro-batch are the other's, also when it comes back."""
        query = pipe.query()
        query.plan()
        query.read()
        query.dies()
        other = pipe.query("b")
        other.run()
        assert pipe.rows() == pipe.written
        pipe.produce()
        again = pipe.query(checkpoint=query.checkpoint)
        again.again()
        pipe.finish(again, other)


def test_an_older_copy_of_the_checkpoint(pipe):
    """Its numbers come again, with other records: the group's offsets decide."""
    query = pipe.query()
    for _ in range(2):
        query.plan()
        query.read()
        query.commit()
    older = list(query.checkpoint)
    query.run()
    assert len(query.checkpoint) == len(older) + 1
    query.dies()
    pipe.produce()
    again = pipe.query(checkpoint=older)
    again.again()
    pipe.finish(again)


class TestASourceThatEndsWhileTasksRun:
    """Its query commits nothing; started again, it goes on from the group's offsets."""

    @pytest.fixture
    def query(self, pipe):
        found = pipe.query()
        found.plan()
        found.read()
        yield found
        found.dies()
        pipe.query(checkpoint=found.checkpoint).again()
        assert pipe.rows() == pipe.written

    def commits_nothing(self, pipe, query):
        with pytest.raises(KohortError, match="the source of this micro-batch has ended"):
            query.commit()
        assert pipe.rows() == {}

    def test_a_killed_source_lets_its_query_commit_nothing(self, pipe, query):
        query.is_killed()
        self.commits_nothing(pipe, query)

    def test_a_source_that_ends_in_order_lets_its_query_commit_nothing(self, pipe, query):
        query.dies()
        self.commits_nothing(pipe, query)

    def test_a_source_whose_files_are_removed_lets_its_query_commit_nothing(
        self, pipe, query, tmp_path
    ):
        for path in tmp_path.glob("userFiles-*/*"):
            path.unlink()
        self.commits_nothing(pipe, query)

    def test_a_query_started_again_meanwhile_lets_the_late_sink_commit_nothing(self, pipe, query):
        """In the same driver, whose first sink is late."""
        query.dies()
        again = pipe.query(checkpoint=list(query.checkpoint))
        again.join()
        again.plan()
        again.read()
        self.commits_nothing(pipe, query)
        again.commit()
        again.dies()


def test_a_driver_that_was_believed_dead_fences_nobody(pipe, in_another_driver):
    """It wakes up before its commit; its successor is in the midst of a micro-batch."""
    short = {"kafka.max.poll.interval.ms": "3000"}
    late = pipe.query(**short)
    late.plan()
    late.read()
    with in_another_driver():
        successor = pipe.query(checkpoint=list(late.checkpoint), **short)
        successor.plan_or_repeat()
        successor.read()
        successor.commit()
        wait_for(successor.plan, "planned")  # the group has waited for the late one
        producer = asyncio.run(transaction_of(pipe, f"{pipe.source}-a"))
    with pytest.raises(KohortError, match="another driver has taken over the sink"):
        late.commit()
    assert asyncio.run(transaction_of(pipe, f"{pipe.source}-a")) == producer
    with in_another_driver():
        successor.read()
        successor.commit()
        late.dies()
        pipe.finish(successor)


def test_a_topic_that_is_created_again_while_tasks_run(pipe):
    """Offsets of its records, committed for its name, would hide the first ones of the new one."""
    query = pipe.query()
    query.plan()
    query.read()
    pipe.topics.delete(pipe.source)
    pipe.topics.create(pipe.source, PARTITIONS)
    pipe.written = Counter()
    pipe.produce()
    with pytest.raises(KohortError, match=r"was deleted during|has taken the partitions"):
        query.commit()
    assert pipe.rows() == {}
    query.dies()
    again = pipe.query(checkpoint=query.checkpoint, failOnDataLoss="false")
    again.again()
    pipe.finish(again)


def test_an_older_checkpoint_of_a_topic_that_was_created_again(pipe):
    """The group has read on in the new topic; partitions are revoked while it is planned."""
    query = pipe.query()
    query.run()
    older = list(query.checkpoint)
    query.dies()
    pipe.topics.delete(pipe.source)
    pipe.topics.create(pipe.source, PARTITIONS)
    before, pipe.written = pipe.written, Counter()
    pipe.produce()
    again = pipe.query(checkpoint=list(older), failOnDataLoss="false")
    again.again()
    again.dies()
    late = pipe.query(checkpoint=older, failOnDataLoss="false")
    late.join()
    member, revoked = late.source._member, iter([True])
    start_batch = member.start_batch
    member.start_batch = lambda *planned: not next(revoked, False) and start_batch(*planned)
    late.again()
    assert pipe.committed() == {0: EACH, 1: EACH}
    assert pipe.rows() == before + pipe.written


async def transaction_of(pipe, transactional_id):
    async with Cluster(ClientConfig(bootstrap=pipe.topics.address)) as cluster:
        return (await Admin(cluster).describe_transactions([transactional_id]))[transactional_id]


def test_rows_without_records_of_the_member(pipe):
    """Of another stream in the query; they would come again, and the member's would not."""
    query = pipe.query()
    query.run()
    query.checkpoint.append(query.checkpoint[-1])
    rows = query.sink.task([pa.record_batch({"value": [b"of another stream"]})])
    token = plan_token(query.sink.options.transactional_id)
    with pytest.raises(
        KohortError, match="with transactionalSink a query may read no other stream"
    ):
        query.sink.commit([replace(rows, query_id="q", plan_token=token)], 9)
    assert pipe.rows() == pipe.written


def test_a_query_that_has_lost_its_partitions_writes_nothing(pipe, monkeypatch):
    monkeypatch.setattr(writing, "RENEWAL_S", 0.1)
    short = {"kafka.max.poll.interval.ms": "3000"}
    late, other = pipe.query(**short), pipe.query("b", **short)
    assert late.plan()
    late.read()
    other.run()  # the group waits for the late one, and then goes on
    with pytest.raises(KohortError, match="has taken the partitions of this micro-batch away"):
        late.commit()
    late.dies()
    again = pipe.query(checkpoint=late.checkpoint)
    again.again()
    pipe.finish(again, other)


def test_a_generation_in_which_a_query_keeps_its_partitions(pipe):
    """A cooperative rebalance during a micro-batch: the other one gets its share behind it."""
    cooperative = {"kafka.partition.assignment.strategy": "cooperative-sticky"}
    query, other = pipe.query(**cooperative), pipe.query("b", **cooperative)
    assert query.plan()
    query.read()
    before = plan_of(f"{pipe.source}-a")
    other.join()
    assert before.renewed(10).group.generation_id > before.group.generation_id
    query.commit()
    pipe.finish(query, other)


def test_two_queries_share_the_records(pipe):
    both = [pipe.query(name) for name in "ab"]
    both[0].run()
    pipe.produce()
    both[1].join()
    pipe.produce()
    pipe.finish(*both)
    assert all(len(each.checkpoint) > 1 for each in both)


def test_a_sink_that_does_not_commit_the_offsets(pipe):
    """It has another transactional id, or none."""
    query = pipe.query()
    query.plan()
    with pytest.raises(
        KohortError, match="without a commit of its offsets: with transactionalSink"
    ):
        query.plan()


def test_a_transactional_id_that_expires_while_the_query_is_idle(tmp_path):
    """Nobody has fenced its sink: the id would exist again."""
    expiring = {
        "transactional.id.expiration.ms": "5000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    }
    server = KohortServer(tmp_path, SETTINGS | expiring)
    pipe = Pipe(Topics(server.address))
    try:
        query = pipe.query()
        query.run()
        pipe.produce()
        query.plan()
        query.read()
        wait_for(
            lambda: isinstance(asyncio.run(transaction_of(pipe, f"{pipe.source}-a")), Exception),
            "expired",
        )
        query.commit()
        pipe.finish(query)
    finally:
        for query in pipe.queries:
            query.dies()
        server.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "events"), [(1, 6), pytest.param(2, 50, marks=pytest.mark.long)])
def test_drivers_and_the_server_are_killed_at_random(tmp_path, seed, events):
    """Two queries of a group; a query that fails is started again, as one that was killed."""
    server, choose = KohortServer(tmp_path), random.Random(seed)
    pipe = Pipe(Topics(server.address))
    queries = {name: pipe.query(name) for name in "ab"}

    def is_started_again(name):
        queries[name].dies()
        queries[name] = pipe.query(name, queries[name].checkpoint)

    def step(name, death):
        query = queries[name]
        for work in (query.plan_or_repeat, query.read, query.commit):
            if death is work.__name__:
                return is_started_again(name)
            if death == f"server {work.__name__}":
                server.is_killed()
            try:
                if work() is False:
                    return None
            except KohortError:
                return is_started_again(name)
        return None

    deaths = ("read", "commit", "server read", "server commit", None, None)
    try:
        for _ in range(events):
            pipe.produce()
            step(choose.choice("ab"), choose.choice(deaths))
        for name in queries:
            is_started_again(name)
        pipe.finish(*queries.values())
    finally:
        for query in pipe.queries:
            query.dies()
        server.stop()


OFFSETS = {TopicPartition("orders", 3): OffsetAndMetadata(offset=7, metadata="here")}
TOPIC_IDS = {"orders": "0iXbZ2vaSs6qXyLMBX0l7w"}
GROUP = GroupMetadata(group_id="g", generation_id=2, member_id="m", instance_id="i")


PRODUCER = (7, 0)


class TestPlans:
    @pytest.fixture
    def source(self):
        found = SinkOffsets("totals-1")
        found.open(0)
        found.begin(PRODUCER)
        yield found
        found.close()

    def test_a_sink_without_a_member_has_no_plan(self):
        assert plan_token("totals-1") is None

    def test_a_plan_has_the_offsets_of_one_micro_batch(self, source):
        assert plan_of("totals-1").offsets == {}
        assert plan_token("totals-2") is None
        source.plan_commit(GROUP, OFFSETS, TOPIC_IDS)
        found = plan_of("totals-1")
        assert (found.group, found.offsets, found.producer) == (GROUP, OFFSETS, PRODUCER)
        assert found.topic_ids == TOPIC_IDS
        found.mark_committed((7, 1))
        source.end_micro_batch()
        assert (plan_of("totals-1").offsets, plan_of("totals-1").producer) == ({}, (7, 1))
        with pytest.raises(KohortError, match="the source of this micro-batch has ended"):
            member_plan("totals-1", found.token)

    def test_a_plan_whose_offsets_are_not_committed_is_an_error(self, source):
        source.plan_commit(GROUP, OFFSETS, TOPIC_IDS)
        plan_of("totals-1").mark_committed((7, 1))
        source.end_micro_batch()
        source.plan_commit(GROUP, OFFSETS, TOPIC_IDS)
        with pytest.raises(KohortError, match="without a commit of its offsets"):
            source.end_micro_batch()

    def test_a_plan_is_renewed_in_the_next_generation(self, source):
        source.plan_commit(GROUP, OFFSETS, TOPIC_IDS)
        found, later = plan_of("totals-1"), replace(GROUP, generation_id=3)
        assert found.renewed(0) is None
        source.renew(later)
        assert found.renewed(0) == replace(found, group=later)
        found.mark_committed(PRODUCER)
        source.end_micro_batch()
        source.renew(GROUP)
        assert plan_of("totals-1").group is None

    def test_a_plan_in_flight_outlasts_its_source(self, source):
        """A sink without a plan is one without a member, which writes."""
        source.plan_commit(GROUP, OFFSETS, TOPIC_IDS)
        source.close()
        token = plan_token("totals-1")
        assert token is not None
        with pytest.raises(KohortError, match="the source of this micro-batch has ended"):
            member_plan("totals-1", token)

    def test_no_plan_outlasts_its_source_between_micro_batches(self, source):
        source.close()
        assert plan_token("totals-1") is None

    def test_plans_of_a_sink_have_one_source(self, source):
        with pytest.raises(KohortError, match="another source of this driver already uses"):
            SinkOffsets("totals-1").open(0)
        source.close()
        SinkOffsets("totals-1").open(0)

    def test_plans_of_another_driver_are_not_seen(self, source, in_another_driver):
        with in_another_driver():
            assert plan_token("totals-1") is None
            SinkOffsets("totals-1").open(0)
