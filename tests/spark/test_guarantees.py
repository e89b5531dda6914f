"""Restarts from a checkpoint, seen by sinks: exactly once where these know batches by ids, else at
least once.
"""

import json
from itertools import count

import pytest

from spark.servers import kohort_only
from spark.streams import PATIENCE_S, Stream, wait_for

pytestmark = [kohort_only, pytest.mark.clients]

_numbers = count()
PARTITIONS = 2
EACH = 10
# The checkpoint alone decides where both of the first begin.
MODES = pytest.mark.parametrize(
    "mode", ["none", pytest.param("reporting", marks=pytest.mark.long), "member"]
)
FAILS_AT = 1
"""The micro-batch whose sink fails the first time, after it has written."""


@pytest.fixture
def orders(topics):
    name = f"guarantees-{next(_numbers)}"
    topics.create(name, PARTITIONS)
    return name


@pytest.fixture
def fill(topics, orders):
    def write(value):
        topics.fill(orders, {each: [value] * EACH for each in range(PARTITIONS)})

    return write


class Sink:
    """What was written; it fails once, as late as can be."""

    def __init__(self, session, topics, directory, by_id, **options):
        self.reading = Stream(session, topics.address, directory, **options)
        self.by_id = by_id
        """Whether a batch that comes again replaces what it had written; else it is appended."""
        self.written = []
        self.healthy = False

    def write(self, frame, batch_id):
        rows = [(batch_id, row.partition, row.offset) for row in frame.collect()]
        if self.by_id:
            self.written = [row for row in self.written if row[0] != batch_id]
        self.written += rows
        if batch_id >= FAILS_AT and not self.healthy:
            raise RuntimeError("the sink failed")

    def run(self):
        writer = (
            self.reading.frame().writeStream.foreachBatch(self.write).trigger(availableNow=True)
        )
        query = writer.option(
            "checkpointLocation", str(self.reading.directory / "checkpoint")
        ).start()
        try:
            assert query.awaitTermination(PATIENCE_S), query.lastProgress
        except Exception as error:
            assert "the sink failed" in str(error), error  # noqa: PT017
            self.healthy = True
            return False
        return True

    def records(self):
        return sorted((partition, offset) for _, partition, offset in self.written)


def all_of(first, last=EACH):
    """(partition, offset) from record `first` to below `last` of each partition."""
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(first, last)]


@pytest.fixture
def sink(session, topics, tmp_path, orders):
    def make(by_id, **options):
        given = {"subscribe": orders, "startingOffsets": "earliest"} | options
        return Sink(session, topics, tmp_path / "sink", by_id, **given)

    yield make
    for query in session.streams.active:
        query.stop()


def fail_in_the_midst(found, fill):
    """Three runs: the second one's sink fails."""
    for value, succeeds in ((b"v", True), (b"w", False), (b"x", True)):
        fill(value)
        assert bool(found.run()) is succeeds


class TestASinkThatFailsAfterItWrote:
    @pytest.fixture
    def group(self, orders, mode):
        return {"groupMode": mode, "group__id": orders}

    @MODES
    def test_a_sink_that_knows_batch_ids_gets_each_record_once(self, sink, fill, group):
        found = sink(True, **group)
        fail_in_the_midst(found, fill)
        assert found.records() == all_of(0, 3 * EACH)

    @MODES
    def test_a_sink_without_batch_ids_gets_each_record_at_least_once(self, sink, fill, group):
        """Only the batch that had failed comes twice, and that exactly: what came since is no part
        of it.
        """
        found = sink(False, **group)
        fail_in_the_midst(found, fill)
        assert found.records() == sorted(all_of(0, 3 * EACH) + all_of(EACH, 2 * EACH))

    @pytest.mark.parametrize("mode", ["none", "reporting", "member"])
    def test_a_batch_that_failed_is_not_committed(self, sink, fill, group, mode, topics, orders):
        found = sink(True, **group)
        fill(b"v")
        assert found.run()
        fill(b"w")
        assert not found.run()
        done = {orders: dict.fromkeys(range(PARTITIONS), EACH)}
        assert topics.committed(orders) == ({} if mode == "none" else done)


class TestMember:
    def test_an_unfinished_batch_is_repeated_though_another_owns_its_partitions(
        self, sink, fill, stream_of, orders
    ):
        """The rule of a restart: the batch in flight as it was, then only what the group gives,
        from where it is.
        """
        failing = sink(True, group__id=orders)
        fill(b"v")
        assert failing.run()
        fill(b"w")
        assert not failing.run()
        other = stream_of("other")
        other.start(processingTime="100 milliseconds")
        wait_for(
            lambda: len(other.rows()) == PARTITIONS * EACH,
            "taken over, and read from the last commit",
        )
        fill(b"x")
        wait_for(lambda: len(other.rows()) == 2 * PARTITIONS * EACH, "read on")
        assert failing.run()
        assert failing.records() == all_of(0, 2 * EACH), (
            "its own batches, each once, and nothing of the other's"
        )

    @pytest.fixture
    def stream_of(self, session, topics, tmp_path, orders):
        def make(name):
            given = {"subscribe": orders, "startingOffsets": "earliest", "group__id": orders}
            return Stream(session, topics.address, tmp_path / name, **given)

        return make


def test_offsets_of_the_checkpoint_are_those_of_sparks_own_source(sink, fill, orders):
    found = sink(True)
    found.healthy = True
    fill(b"v")
    assert found.run()
    lines = (found.reading.directory / "checkpoint" / "offsets" / "0").read_text().splitlines()
    offsets = json.loads(lines[-1])
    del offsets["@ids"]
    assert offsets == {orders: {"0": EACH, "1": EACH}}
