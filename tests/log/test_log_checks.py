"""What a check of the logs of a stopped server finds, in files and in tables."""

import asyncio
from contextlib import closing
from uuid import UUID

import pytest

from kohort.log import directory_check
from kohort.log.base import LogConfig
from kohort.log.copying import copy_all
from kohort.log.findings import Level, LoggedPartition
from kohort.log.leader_epoch_checkpoint import NAME
from kohort.log.local import LocalDirectory
from kohort.storage.postgres.logs import log_check
from kohort.storage.postgres.logs.copy import PostgresTarget
from kohort.types import TopicPartition

from .conftest import NOW, ORDERS, ORDERS_ID, batch, fill

SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=100)
COMPACTED = LogConfig(
    segment_bytes=1_000, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
)
METADATA = TopicPartition("__cluster_metadata", 0)
KNOWN = {ORDERS: LoggedPartition(ORDERS_ID, 5)}


def told(findings):
    """The findings that are no good news, with the words that tell them apart."""
    return [
        (finding.level, finding.what, finding.text)
        for finding in findings
        if finding.level is not Level.OK
    ]


@pytest.fixture
def led(data):
    """A data directory with a log that was led in the epochs 0, 2 and 5, closed."""
    for epoch in (0, 2, 5):
        with closing(LocalDirectory(data)) as directory:
            if not epoch:
                directory.directories.make({ORDERS: ORDERS_ID, METADATA: UUID(int=1)})
            fill(directory.open(ORDERS, SMALL, leader_epoch=epoch), 20)
    return data


class TestOfFiles:
    def check(self, data, known=KNOWN):
        before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
        found = told(directory_check.check(data, lambda _: known))
        assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
        return found

    def test_a_check_finds_no_damage_in_intact_files(self, led):
        assert self.check(led) == []
        with closing(LocalDirectory(led)) as directory:
            directory.open(ORDERS, SMALL).trim(25)
        assert self.check(led) == []

    @pytest.mark.parametrize("epoch", [-1, 0, 6])
    def test_a_leader_epoch_that_cannot_be(self, led, epoch):
        segment = max((led / str(ORDERS)).glob("*.log"))
        content = bytearray(segment.read_bytes())
        content[12:16] = epoch.to_bytes(4, signed=True)
        segment.write_bytes(content)
        ((level, what, text),) = self.check(led)
        assert (level, what) == (Level.PROBLEM, "log" if epoch else "epoch")
        assert str(segment) in text

    @pytest.mark.parametrize("content", [None, b"0\n1\n0 0\n", b"0\n2\n0 0\n5 20\n", b"broken"])
    def test_a_file_of_leader_epochs_that_is_not_true(self, led, content):
        path = led / str(ORDERS) / NAME
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        ((level, what, text),) = self.check(led)
        assert (level, what) == (Level.WARNING, "epoch")
        assert f"{path} does not have the leader epoch" in text

    def test_a_segment_that_is_gone(self, led):
        segments = sorted((led / str(ORDERS)).glob("*.log"))
        segments[1].unlink()
        ((level, what, text),) = self.check(led)
        assert (level, what) == (Level.PROBLEM, "log")
        assert "missing" in text
        assert f"see kohort repair {led} {ORDERS}" in text

    def test_a_log_without_a_topic(self, led):
        ((level, what, text),) = self.check(led, {})
        assert (level, what) == (Level.WARNING, "topics")
        assert f"{led / str(ORDERS)} belongs to no topic" in text

    def test_a_log_of_another_topic(self, led):
        ((level, what, text),) = self.check(led, {ORDERS: LoggedPartition(UUID(int=8), 5)})
        assert (level, what) == (Level.PROBLEM, "topics")
        assert "is not served" in text

    def test_a_topic_without_a_log(self, led):
        lost = {TopicPartition("lost", 3): LoggedPartition(ORDERS_ID, 0)}
        ((level, what, text),) = self.check(led, KNOWN | lost)
        assert (level, what) == (Level.WARNING, "topics")
        assert f"{led / 'lost-3'} is missing" in text

    def test_check_of_files_without_metadata(self, led):
        (led / str(METADATA) / "partition.metadata").unlink()
        (led / str(METADATA)).rename(led / "aside")
        ((level, what, _),) = self.check(led)
        assert (level, what) == (Level.PROBLEM, "metadata")


class TestOfTables:
    @pytest.fixture
    def tables(self, led, database, postgres):
        """A database with a copy of the log; runs statements in its schema."""
        self.copy(led, database)
        schema = database.rpartition("=")[2]
        return lambda *statements: postgres.execute(f"set search_path = {schema}", *statements)

    def copy(self, data, database):
        with closing(LocalDirectory(data)) as source, closing(PostgresTarget(database)) as target:
            target.largest_segment = 3_000
            copy_all(source, target)

    async def check(self, database, known=KNOWN):
        import asyncpg

        connection = await asyncpg.connect(database)
        found = [each async for each in log_check.check_logs(connection, lambda _: known)]
        await connection.close()
        return told(found)

    async def test_a_check_finds_no_damage_in_intact_tables(self, tables, database):
        assert await self.check(database) == []

    @pytest.mark.parametrize(
        ("statement", "where"),
        [
            ("delete from batches where base = 20", "records from offset 20"),
            ("delete from batches where base = 0", "records from offset 0"),
            ("delete from segments where base = (select min(base) from segments where base > 0)",
             "segments has no row"),
            ("delete from batches where base = (select max(base) from batches)", "instead of"),
            ("update batches set epoch = 4 where base = 20", "are not those of its data"),
            ("update batches set next = next - 1 where base = 20", "are not those of its data"),
            ("update batches set data = set_byte(data, 100, 255) where base = 20",
             "no valid batch is at byte 0"),
            ("update batches set data = set_byte(data, 15, 0) where base = 40",
             "0 at offset 40 follows 2"),
            ("update batches set data = substr(data, 1, 100) where base = 20", "no valid batch"),
        ],
    )  # fmt: skip
    async def test_check_of_tables_finds_damage(self, tables, database, statement, where):
        tables(statement)
        ((level, what, text),) = await self.check(database)
        assert (level, what) == (Level.PROBLEM, "log")
        assert where in text
        assert "(log, base) = (" in text

    async def test_check_of_tables_accepts_compaction(self, data, database):
        with closing(LocalDirectory(data)) as directory:
            directory.directories.make({ORDERS: ORDERS_ID})
            log = directory.open(ORDERS, COMPACTED)
            for number in range(100):
                log.append(batch(bytes(50), key=b"%d" % (number % 5)), NOW)
            assert await log.compact(NOW)
        await asyncio.to_thread(self.copy, data, database)
        assert await self.check(database) == []

    async def test_a_log_without_a_topic_and_a_topic_without_a_log(self, tables, database):
        lost = TopicPartition("lost", 3)
        found = await self.check(database, {lost: LoggedPartition(ORDERS_ID, 0)})
        assert [(level, what) for level, what, _ in found] == [(Level.WARNING, "topics")] * 2
        assert ["orders-0 belongs to no topic" in found[0][2], "lost-3 is missing" in found[1][2]]

    async def test_a_log_of_another_topic(self, tables, database):
        ((level, what, text),) = await self.check(
            database, {ORDERS: LoggedPartition(UUID(int=8), 5)}
        )
        assert (level, what) == (Level.PROBLEM, "topics")
        assert "is not served" in text

    async def test_check_of_tables_finds_rows_without_a_log(self, tables, database):
        tables("insert into batches values (77, 0, 1, 0, 0, '')")
        ((level, what, text),) = await self.check(database)
        assert (level, what) == (Level.WARNING, "rows")
        assert "batches has rows of log 77" in text
