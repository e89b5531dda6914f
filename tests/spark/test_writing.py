"""What write tasks and the driver do with rows for partitions, without Spark: when they are sent,
and when not.
"""

import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from kohort.errors import ConfigError, KohortError
from kohort.spark import fetching, writing
from kohort.spark.offset_queries import OffsetQueries
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange
from kohort.spark.row_spool import RowSpool, SpoolDirectory, read_file, read_packed
from kohort.spark.write_options import parse_write
from kohort.spark.writing import HELD_BYTES, Writing, Written
from peers.kohort import kohort

PARTITIONS = 3
SCHEMA = pa.schema([("value", pa.string()), ("partition", pa.int32())])

_numbers = count()


def rows(first, last, size=20, wrong=None):
    """Record batches of ten rows each: their numbers, filled up to `size`, to the partitions in
    turn.
    """
    for at in range(first, last, 10):
        ids = range(at, min(at + 10, last))
        values = [f"{number:06}".ljust(size, "x") for number in ids]
        partitions = [7 if number == wrong else number % PARTITIONS for number in ids]
        yield pa.record_batch([pa.array(values), pa.array(partitions, pa.int32())], schema=SCHEMA)


MANY = HELD_BYTES // 1000 + 100
"""Rows of 1,000 bytes that are too many for a message."""


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Where files wait."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Target:
    """A topic, written to and read without Spark."""

    def __init__(self, topics):
        self.name = f"writing-{next(_numbers)}"
        topics.create(self.name, PARTITIONS)
        servers = {"kafka.bootstrap.servers": topics.address}
        self._reading = parse_read(servers | {"subscribe": self.name}, streaming=False)
        options = parse_write(servers | {"topic": self.name})
        self.near = Writing(options, ("value", "partition"), SpoolDirectory())
        self.far = replace(
            self.near, spool_directory=SpoolDirectory(directory=("another machine",))
        )

    def numbers(self):
        """{partition: the numbers of the rows, in the order of offsets}."""
        queries = OffsetQueries(self._reading)
        found = {}
        for tp, end in queries.latest(queries.partitions()).items():
            if end:
                parts = fetching.read(self._reading, OffsetRange(tp.topic, tp.partition, 0, end))
                found[tp.partition] = [
                    int(value[:6]) for part in parts for value in part["value"].to_pylist()
                ]
        return found


@pytest.fixture
def target(topics):
    return Target(topics)


def in_turn(last):
    return {partition: list(range(partition, last, PARTITIONS)) for partition in range(PARTITIONS)}


class TestFewRows:
    def test_few_rows_travel_with_the_message_to_the_driver(self, target):
        messages = [
            target.far.task(rows(0, 30)),
            target.far.task(rows(30, 60)),
            target.far.task(iter(())),
        ]
        assert all(each.held for each in messages[:2])
        assert target.numbers() == {}
        target.far.commit(messages)
        assert target.numbers() == in_turn(60)


class TestManyRowsOnTheDriversMachine:
    def test_many_rows_wait_in_a_file_for_the_driver(self, target, directory):
        messages = [
            target.near.task(rows(0, MANY, 1000)),
            target.near.task(rows(MANY, 2 * MANY, 1000)),
        ]
        assert {Path(each.file) for each in messages} == set(directory.iterdir())
        assert target.numbers() == {}
        target.near.commit(messages)
        assert target.numbers() == in_turn(2 * MANY)
        assert list(directory.iterdir()) == []

    def test_no_row_is_sent_if_another_task_fails(self, target, directory):
        target.near.task(rows(0, MANY, 1000))
        with pytest.raises(
            ConfigError, match=(f"a row is for partition 7 of topic {target.name}, which has the")
        ):
            target.near.task(rows(MANY, 2 * MANY, 1000, wrong=2 * MANY - 1))
        assert len(list(directory.iterdir())) == 1, "the task that failed has removed its own"
        target.near.abort([None])
        assert list(directory.iterdir()) == []
        assert target.numbers() == {}

    def test_files_of_rows_are_removed_by_another_writer_of_the_driver(self, target, directory):
        messages = [target.near.task(rows(0, MANY, 1000))]
        replace(target.near, spool_directory=SpoolDirectory()).commit(messages)
        assert list(directory.iterdir()) == []
        assert target.numbers() == in_turn(MANY)

    def test_files_of_other_writes_stay(self, target, directory):
        other = SpoolDirectory().new_file()
        target.near.commit([target.near.task(rows(0, MANY, 1000))])
        assert list(directory.iterdir()) == [other]

    def test_a_file_that_is_gone_is_told(self, target, directory):
        message = target.near.task(rows(0, MANY, 1000))
        Path(message.file).unlink()
        with pytest.raises(
            KohortError, match=(r"rows that a task left in .* cannot be read, write them again")
        ):
            target.near.commit([message])


class TestManyRowsElsewhere:
    def test_rows_for_another_machine_are_sent_by_the_task(self, target):
        assert target.far.task(rows(0, MANY, 1000)) == Written()
        assert target.numbers() == in_turn(MANY)

    def test_no_row_is_sent_if_one_is_for_a_wrong_partition(self, target, directory, monkeypatch):
        monkeypatch.setattr(writing, "SPOOL_BYTES", 5_000)
        with pytest.raises(ConfigError, match="a row is for partition 7"):
            target.far.task(rows(0, MANY, 1000, wrong=MANY - 1))
        assert target.numbers() == {}
        assert list(directory.iterdir()) == []


def test_a_task_without_partitions_sends_at_once(target):
    plain = replace(target.near, columns=("value",))
    assert plain.task(rows(0, 60)) == Written()
    assert sorted(number for some in target.numbers().values() for number in some) == list(
        range(60)
    )


def test_a_topic_that_nobody_makes_is_waited_for_as_long_as_max_block_ms_says():
    with kohort({"auto.create.topics.enable": "false"}) as address:
        options = parse_write(
            {"kafka.bootstrap.servers": address, "topic": "nowhere", "kafka.max.block.ms": "300"}
        )
        with pytest.raises(KohortError, match=r"partitions of topic nowhere: .* 0\.\d s"):
            Writing(options, ("value",), SpoolDirectory()).task(rows(0, 10))


class TestSpool:
    @pytest.mark.parametrize("memory_bytes", [0, 500, 1_000_000])
    def test_a_spool_keeps_the_order_in_memory_and_on_disk(self, memory_bytes, directory):
        with RowSpool(memory_bytes, SpoolDirectory()) as spool:
            for batch in rows(0, 200):
                spool.add(batch)
            assert pa.Table.from_batches(spool) == pa.Table.from_batches(rows(0, 200))
            assert len(list(directory.iterdir())) == (memory_bytes < 1_000_000)
        assert list(directory.iterdir()) == []

    def test_a_spool_gets_to_the_driver_in_a_message_or_a_file(self):
        with RowSpool(1_000_000, SpoolDirectory()) as spool:
            for batch in rows(0, 30):
                spool.add(batch)
            packed, left = spool.packed(), spool.handed_over()
        assert pa.Table.from_batches(read_packed(packed)) == pa.Table.from_batches(read_file(left))
        assert list(read_packed(b"")) == []


def test_a_handover_reaches_processes_that_share_the_directory(tmp_path, monkeypatch):
    spool_directory = SpoolDirectory()
    assert spool_directory.reaches()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    assert not spool_directory.reaches()
