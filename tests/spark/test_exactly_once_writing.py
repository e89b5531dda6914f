"""`delivery=exactly_once` without Spark: what tasks hand over, and what the driver commits,
wherever an earlier one ended.
"""

import asyncio
import tempfile
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from kohort.client.admin import Admin, offset_apis
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.errors import ProducerFencedError
from kohort.client.produce import Producer
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.spark import fetching, transaction
from kohort.spark.encoded_batches import unpack
from kohort.spark.offset_queries import OffsetQueries
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange
from kohort.spark.row_spool import SpoolDirectory, read_file
from kohort.spark.write_options import parse_write
from kohort.spark.writing import HELD_BYTES, Writing
from spark.streams import wait_for

PARTITIONS = 3
SCHEMA = pa.schema([("value", pa.string()), ("partition", pa.int32())])
MANY = HELD_BYTES // 1000 + 100
"""Rows of 1,000 bytes that are too many for a message of a task on the driver's machine."""

_numbers = count()


def rows(first, last, size=20, wrong=None):
    """Record batches of up to a thousand rows: their numbers, to the partitions in turn."""
    for at in range(first, last, 1_000):
        ids = range(at, min(at + 1_000, last))
        values = [f"{number:06}".ljust(size, "x") for number in ids]
        partitions = [7 if number == wrong else number % PARTITIONS for number in ids]
        yield pa.record_batch([pa.array(values), pa.array(partitions, pa.int32())], schema=SCHEMA)


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Where files wait."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Target:
    """A topic, and a sink with a transactional id and a checkpoint."""

    def __init__(self, topics, directory):
        self.checkpoint = directory / "checkpoint"
        (self.checkpoint / "offsets").mkdir(parents=True)
        self.name = f"exactly-once-{next(_numbers)}"
        topics.create(self.name, PARTITIONS)
        self._servers = {"kafka.bootstrap.servers": topics.address}
        self.writing = self.sink()

    def sink(self, **options):
        given = {"topic": self.name, "delivery": "exactly_once"} | self._servers
        given |= {"kafka.transactional.id": self.name, "checkpointLocation": str(self.checkpoint)}
        given |= {name.replace("__", "."): value for name, value in options.items()}
        return Writing(parse_write(given), ("value", "partition"), SpoolDirectory())

    def elsewhere(self):
        """The tasks of another machine."""
        return replace(self.writing, spool_directory=SpoolDirectory(directory=("another",)))

    def write(self, first, last, number, query="a", plan=None):
        self.plan(number, plan or f'{{"orders": {{"0": {last}}}}}')
        self.commit(rows(first, last), number, query)

    def plan(self, number, offsets):
        """Spark's log has the offsets of the micro-batch."""
        text = f'v1\n{{"batchWatermarkMs": 0, "batchTimestampMs": {time.time_ns()}}}\n{offsets}'
        (self.checkpoint / "offsets" / str(number)).write_text(text)

    def commit(self, batches, number, query="a", **options):
        writing = replace(self.writing, **options)
        writing.commit([replace(writing.task(batches), query_id=query)], number)

    async def begun(self, topics):
        """The producer of another driver, with an open transaction."""
        config = ClientConfig(bootstrap=topics.address)
        producer = Producer(config, transactional_id=self.name)
        return producer, await producer.transaction().__aenter__()

    def numbers(self, isolation="read_committed"):
        """{partition: the numbers of the rows, in the order of offsets}; by read_committed when no
        transaction is open. Apache Kafka writes markers a little after EndTxn's response.
        """
        reading = self._reading(isolation)
        if isolation == "read_committed":
            wait_for(lambda: self._ends(reading) == self._ends(self._reading()), "all ended")
        found = {}
        for tp, end in self._ends(reading).items():
            if end:
                parts = fetching.read(reading, OffsetRange(tp.topic, tp.partition, 0, end))
                values = [int(value[:6]) for part in parts for value in part["value"].to_pylist()]
                found |= {tp.partition: values} if values else {}
        return found

    def _reading(self, isolation="read_uncommitted"):
        options = {"subscribe": self.name, "kafka.isolation.level": isolation}
        return parse_read(self._servers | options, streaming=False)

    def _ends(self, reading):
        queries = OffsetQueries(reading)
        return queries.latest(queries.partitions())


@pytest.fixture
def target(topics, tmp_path_factory):
    return Target(topics, tmp_path_factory.mktemp("query"))


def in_turn(last):
    return {partition: list(range(partition, last, PARTITIONS)) for partition in range(PARTITIONS)}


class TestTasks:
    def test_tasks_send_no_rows_before_the_commit(self, target):
        messages = [target.writing.task(rows(0, 30)), target.elsewhere().task(rows(30, MANY, 1000))]
        assert target.numbers("read_uncommitted") == {}
        target.writing.commit(messages)
        assert target.numbers() == in_turn(MANY)

    def test_batches_in_a_file_are_read_without_a_copy(self, target):
        written = target.writing.task(rows(0, MANY, 1000))
        found = list(unpack(read_file(written.file)))
        assert sum(each.rows for each in found) == MANY
        assert all(memoryview(each.records).readonly for each in found)
        assert {type(each.records) for each in found} == {memoryview}
        target.writing.abort([written])

    def test_tasks_on_the_drivers_machine_hand_over_files(self, target, directory):
        messages = [target.writing.task(rows(0, MANY, 1000))]
        assert {Path(each.file) for each in messages} == set(directory.iterdir())
        target.writing.commit(messages)
        assert list(directory.iterdir()) == []
        assert target.numbers() == in_turn(MANY)

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_files_of_all_attempts_are_removed_by_another_writer_of_the_driver(
        self, target, directory, end
    ):
        """As in a stream, whose driver makes a writer of its own to commit."""
        message = target.writing.task(rows(0, MANY, 1000))
        target.writing.task(rows(0, MANY, 1000))  # an attempt that Spark does not count
        getattr(target.sink(), end)([message, None])
        assert list(directory.iterdir()) == []
        assert target.numbers() == (in_turn(MANY) if end == "commit" else {})

    def test_a_stream_of_which_spark_tells_no_query(self, target):
        with pytest.raises(KohortError, match="the id of the query"):
            target.writing.commit([target.writing.task(rows(0, 3))], 0)


class TestAllOrNone:
    @pytest.mark.parametrize("where", ["here", "elsewhere"])
    def test_a_partition_that_is_not_there(self, target, where):
        """Also if tasks on other machines have many rows, which they send without a transaction."""
        writing = target.writing if where == "here" else target.elsewhere()
        messages = [writing.task(rows(0, MANY, 1_000)), None]
        with pytest.raises(ConfigError, match="a row is for partition 7"):
            writing.task(rows(0, MANY, 1_000, wrong=MANY - 1))
        writing.abort(messages)
        assert target.numbers("read_uncommitted") == {}

    def test_a_record_that_is_too_large(self, target):
        small = target.sink(kafka__max__request__size="1500")
        small.task(rows(0, 300))
        with pytest.raises(KohortError, match="MESSAGE_TOO_LARGE"):
            small.task(rows(300, 301, 2_000))
        assert target.numbers("read_uncommitted") == {}

    def test_a_record_that_the_topic_refuses(self, target, topics):
        """Of which a task does not know."""
        topics.configure(target.name, max_message_bytes="1500")
        messages = [target.writing.task(rows(0, 30)), target.writing.task(rows(30, 31, 2_000))]
        with pytest.raises(KohortError, match="MESSAGE_TOO_LARGE"):
            target.writing.commit(messages)
        assert target.numbers() == {}
        target.writing.commit(messages[:1])
        assert target.numbers() == in_turn(30)


class TestMicroBatches:
    def test_each_is_written_once(self, target):
        for number in (0, 0, 1, 1, 1, 2):
            target.write(number * 30, number * 30 + 30, number)
        assert target.numbers() == in_turn(90)

    def test_a_committed_micro_batch_with_another_plan_is_refused(self, target):
        """Planned from an older copy of the checkpoint: more records were there by then."""
        target.write(0, 30, 0)
        target.write(30, 60, 1)
        older = r'committed with the offsets {"orders": {"0": 60}}, and this one has .*"0": 90'
        with pytest.raises(KohortError, match=older):
            target.write(30, 90, 1)
        assert target.numbers() == in_turn(60)
        target.write(30, 60, 1)
        target.write(60, 90, 2)
        assert target.numbers() == in_turn(90)

    @pytest.mark.parametrize(("number", "rows"), [(0, 30), (0, 0), (1, 0)])
    def test_a_micro_batch_before_the_committed_one_is_refused(self, target, number, rows):
        target.write(0, 30, 0)
        target.write(30, 60, 1)
        with pytest.raises(KohortError, match="the checkpoint is an older copy"):
            target.write(0, rows, number)
        assert target.numbers() == in_turn(60)

    def test_a_micro_batch_without_rows_commits_nothing(self, target):
        target.write(0, 30, 0)
        target.write(30, 30, 1)
        target.write(30, 60, 1, plan="more than before")
        assert target.numbers() == in_turn(60)

    def test_plans_of_many_partitions_are_compared_by_their_digest(self, target):
        """Their digest is compared."""
        many = ", ".join(f'"{partition}": 1000000' for partition in range(1_000))
        for _ in range(2):
            target.write(0, 30, 0, plan=many)
        with pytest.raises(KohortError, match="committed with the offsets sha256:"):
            target.write(0, 30, 0, plan=f"{many}1")
        assert target.numbers() == in_turn(30)

    def test_a_committed_micro_batch_is_skipped_by_its_number_without_verify_plan(self, target):
        target.writing = target.sink(verifyPlan="false")
        target.write(0, 30, 0)
        target.write(0, 60, 0)
        target.writing = target.sink()
        target.write(0, 60, 0)
        assert target.numbers() == in_turn(30)

    @pytest.mark.parametrize(
        ("location", "says"),
        [
            (None, "the query's options have no checkpointLocation"),
            ("/nowhere/checkpoint", "No such file"),
            ("dbfs:/checkpoint", "dbfs"),
        ],
    )
    def test_a_micro_batch_with_an_unreadable_checkpoint_is_refused(self, target, location, says):
        options = replace(target.writing.options, checkpoint=location)
        with pytest.raises(KohortError, match=f"micro-batch 0 cannot be read.*{says}") as refused:
            target.commit(rows(0, 30), 0, options=options)
        assert "verifyPlan" in str(refused.value)
        assert target.numbers() == {}

    @pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
    def test_a_checkpoint_may_be_named_by_path_or_file_url(self, target, form):
        target.writing = target.sink(checkpointLocation=form.format(target.checkpoint))
        target.write(0, 30, 0)
        with pytest.raises(KohortError, match="older copy"):
            target.write(0, 60, 0)

    def test_micro_batches_of_a_new_checkpoint_begin_at_zero_again(self, target):
        target.write(0, 30, 0, query="a")
        target.write(30, 60, 0, query="b")
        assert target.numbers() == in_turn(60)

    def test_a_micro_batch_may_be_written_to_a_topic_for_each_row(self, target, topics):
        """The number is beside one of them, which another micro-batch need not have."""
        topics.create(f"{target.name}-other")
        options = replace(target.writing.options, topic=None)
        for number, name in ((0, target.name), (1, f"{target.name}-other"), (2, target.name)):
            target.plan(number, "{}")
            batch = pa.record_batch({"value": ["000000"], "topic": [name]})
            for _ in range(2):
                target.commit([batch], number, options=options, columns=("value", "topic"))
        assert sum(map(len, target.numbers().values())) == 2


class TestAnotherDriver:
    def test_a_driver_continues_where_one_died_within_a_transaction(self, target, topics):
        """Its transaction is open, with records that nobody reads."""

        async def dies():
            producer, _ = await target.begun(topics)
            await producer.send_and_wait(target.name, b"999999", partition=0)
            await producer.close(timeout_ms=0)

        asyncio.run(dies())
        assert target.numbers("read_uncommitted") == {0: [999999]}
        target.write(0, 30, 0)
        assert target.numbers() == in_turn(30)

    def test_a_new_driver_fences_one_that_still_runs(self, target, topics):
        """A driver that was believed dead goes on: its rows are not written."""

        async def goes_on():
            producer, transaction = await target.begun(topics)
            await producer.send_and_wait(target.name, b"999999", partition=0)
            await asyncio.to_thread(target.write, 0, 30, 0)
            with pytest.raises(ProducerFencedError):
                await transaction.__aexit__(None, None, None)
            await producer.close(timeout_ms=0)

        asyncio.run(goes_on())
        assert target.numbers() == in_turn(30)

    def test_an_old_driver_that_wakes_up_does_not_fence_its_successor(self, target, topics):
        """It was believed dead; its successor has committed its micro-batch, and the next one."""

        async def goes_on():
            producer, transaction = await target.begun(topics)
            await producer.send_and_wait(target.name, b"000060", partition=0)
            with pytest.raises(KohortError, match="either another driver runs this query"):
                await asyncio.to_thread(target.write, 0, 30, 0)
            await transaction.__aexit__(None, None, None)
            await producer.close()

        target.write(0, 30, 0)
        target.write(30, 60, 1)
        asyncio.run(goes_on())
        assert target.numbers() == {0: [*in_turn(60)[0], 60], 1: in_turn(60)[1], 2: in_turn(60)[2]}

    def test_a_driver_notices_a_commit_of_another_after_its_check(self, target, monkeypatch):
        """One that slept behind its check finds out, once it has fenced its successor."""
        target.write(0, 30, 0)
        target.write(30, 60, 1)
        monkeypatch.setattr(transaction, "is_committed", lambda *_: False)
        with pytest.raises(KohortError, match="either another driver runs this query"):
            target.write(0, 30, 0)
        target.write(30, 60, 1)
        assert target.numbers() == in_turn(60)

    def test_the_plan_of_a_micro_batch_is_committed_in_a_group(self, target, topics):
        target.write(0, 30, 4, query="q")

        async def committed():
            async with Cluster(ClientConfig(bootstrap=topics.address)) as cluster:
                found = await Admin(cluster).committed([f"{target.name}-batches"])
            return found[f"{target.name}-batches"]

        ((tp, offset),) = asyncio.run(committed()).items()
        plan = 'q {"orders": {"0": 30}}'
        assert (str(tp), offset.offset, offset.metadata) == (f"{target.name}-0", 4, plan)


def test_the_offsets_of_an_earlier_transaction_are_awaited(target, monkeypatch):
    """A broker may respond to InitProducerId before the group has them."""
    target.write(0, 6, number=0)
    fetch, errors = offset_apis._fetch, [KafkaError(ErrorCode.unstable_offset_commit, "")] * 2

    async def unstable(coordinator, groups, topics, require_stable):
        if require_stable and errors:
            return dict.fromkeys(groups, errors.pop())
        return await fetch(coordinator, groups, topics, require_stable)

    monkeypatch.setattr(offset_apis, "_fetch", unstable)
    target.write(6, 12, number=1)
    assert errors == []
    assert target.numbers() == in_turn(12)
