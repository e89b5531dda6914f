"""Committed and aborted transactions: what each isolation level reads, and where it ends."""

import json
from itertools import count

import pytest
from confluent_kafka import Producer

from kohort.spark.metrics import source_metrics
from spark.streams import Stream, wait_for

pytestmark = pytest.mark.clients

_numbers = count()
EACH = 5
"""Records of each partition in each transaction."""
READ_COMMITTED = {"kafka__isolation__level": "read_committed"}


class Written:
    """Transactions of one producer, in a topic of two partitions; a transaction ends with a marker,
    an offset too.
    """

    def __init__(self, topics):
        self.topic = f"transactions-{next(_numbers)}"
        topics.create(self.topic, 2)
        self._producer = Producer(
            {"bootstrap.servers": topics.address, "transactional.id": self.topic}
        )
        self._producer.init_transactions(30)
        self.end = 0
        self.committed = []
        """Offsets of records of transactions that were committed; in both partitions the same."""
        self.all = []
        """Of records, whatever became of them."""

    def begin(self):
        self._producer.begin_transaction()
        for at in range(2 * EACH):
            self._producer.produce(self.topic, value=b"%d" % at, partition=at % 2)
        assert self._producer.flush(30) == 0
        offsets = range(self.end, self.end + EACH)
        self.all += offsets
        self.end += EACH
        return offsets

    def commit(self):
        self.committed += self.begin()
        self.commit_begun()

    def commit_begun(self):
        self._producer.commit_transaction(30)
        self.end += 1

    def abort(self):
        self.begin()
        self._producer.abort_transaction(30)
        self.end += 1

    def interleave(self):
        """Committed ones between aborted ones; at the very end only an abort and its marker."""
        for step in (
            self.abort,
            self.commit,
            self.abort,
            self.abort,
            self.commit,
            self.commit,
            self.abort,
        ):
            step()


@pytest.fixture
def written(topics):
    return Written(topics)


@pytest.fixture
def read(session, topics, written):
    def offsets(**options):
        given = {name.replace("__", "."): value for name, value in options.items()}
        reader = (
            session.read.format("kohort")
            .option("kafka.bootstrap.servers", topics.address)
            .options(**given)
        )
        rows = (
            reader.option("subscribe", written.topic).load().select("partition", "offset").collect()
        )
        return both(
            {part: sorted(row.offset for row in rows if row.partition == part) for part in (0, 1)}
        )

    return offsets


@pytest.fixture
def stream(session, topics, written, tmp_path):
    def make(**options):
        given = (
            {"subscribe": written.topic, "startingOffsets": "earliest"} | READ_COMMITTED | options
        )
        return Stream(session, topics.address, tmp_path, **given)

    yield make
    for query in session.streams.active:
        query.stop()


def both(found):
    """What both partitions have; they have the same."""
    assert found.get(0) == found.get(1)
    return found.get(0, [])


class TestBatches:
    def test_read_committed_reads_only_committed_records(self, read, written):
        written.interleave()
        assert read(**READ_COMMITTED) == written.committed

    def test_read_uncommitted_reads_all_records(self, read, written):
        written.interleave()
        assert read() == written.all

    def test_batch_fields_tell_which_transactions_were_committed(self, session, topics, written):
        written.interleave()
        reader = session.read.format("kohort").option("includeBatchFields", True)
        reader = reader.option("kafka.bootstrap.servers", topics.address)
        rows = reader.option("subscribe", written.topic).load().orderBy("offset").collect()
        committed, pending = [], []
        for row in rows:
            if row.partition != 0:
                continue
            assert row.transactional
            assert row.batchOffset <= row.offset
            if row.control is None:
                pending.append(row.offset)
            elif row.control == "commit":
                committed += pending
            pending = [] if row.control is not None else pending
        assert (committed, pending) == (written.committed, [])
        assert len({(row.producerId, row.control) for row in rows}) >= 3
        assert len(rows) == 2 * written.end

    def test_batch_fields_of_a_committed_read_lack_only_aborted_records(self, read, written):
        written.interleave()
        markers = set(range(written.end)).difference(written.all)
        found = read(includeBatchFields="true", **READ_COMMITTED)
        assert found == sorted({*written.committed, *markers})

    def test_tasks_that_begin_within_a_transaction_read_committed_records(self, read, written):
        """Tasks of two offsets: most begin inside a transaction, some have only markers."""
        written.interleave()
        assert read(**READ_COMMITTED, maxRecordsPerPartition="2") == written.committed
        start = written.committed[0] + 2
        starting = json.dumps({written.topic: {"0": start, "1": start}})
        assert read(**READ_COMMITTED, startingOffsets=starting) == written.committed[2:]

    def test_read_committed_ends_at_an_open_transaction(self, read, written):
        written.commit()
        begun = written.begin()
        assert read(**READ_COMMITTED) == written.committed
        assert read() == written.all
        written.commit_begun()
        assert read(**READ_COMMITTED) == [*written.committed, *begun]

    def test_a_topic_with_aborted_transactions_only_reads_as_empty(self, read, written):
        written.abort()
        assert read(**READ_COMMITTED) == []


class TestStreams:
    @pytest.mark.parametrize("mode", ["reporting", "member"])
    def test_a_run_ends_behind_the_last_marker_and_the_group_has_no_lag(
        self, stream, written, topics, mode
    ):
        written.interleave()
        reading = stream(group__id=written.topic, groupMode=mode)
        reading.run()
        assert both(reading.offsets()) == written.committed
        assert topics.committed(written.topic) == {written.topic: {0: written.end, 1: written.end}}

    def test_a_run_of_nothing_but_aborted_ones(self, stream, written, topics):
        written.abort()
        reading = stream(group__id=written.topic)
        reading.run()
        assert reading.offsets() == {}
        assert topics.committed(written.topic) == {written.topic: {0: written.end, 1: written.end}}

    def test_small_micro_batches_read_only_committed_records(self, stream, written):
        """Some of them have nothing but markers and aborted records."""
        written.interleave()
        reading = stream(maxOffsetsPerTrigger="6")
        reading.run()
        assert both(reading.offsets()) == written.committed

    def test_batch_fields_of_a_stream_have_each_control_record_once(self, stream, written):
        written.interleave()
        markers = set(range(written.end)).difference(written.all)
        reading = stream(includeBatchFields="true", maxOffsetsPerTrigger="6")
        reading.run()
        assert both(reading.offsets()) == sorted({*written.committed, *markers})

    def test_an_open_transaction_is_read_when_it_was_committed(self, stream, written, topics):
        written.commit()
        begun = written.begin()
        reading = stream(group__id=written.topic)
        query = reading.start(processingTime="100 milliseconds")
        wait_for(lambda: both(reading.offsets()) == written.committed, "read", query)
        wait_for(
            lambda: (
                topics.committed(written.topic).get(written.topic)
                == dict.fromkeys((0, 1), begun[0])
            ),
            "committed up to the open transaction",
            query,
        )
        assert source_metrics(query.lastProgress)[0].max_offsets_behind_latest == 0
        written.commit_begun()
        wait_for(lambda: both(reading.offsets()) == [*written.committed, *begun], "read", query)
