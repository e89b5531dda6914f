"""Topics that change while a query runs: made, grown, emptied, deleted, made anew; with and without
membership.
"""

from itertools import count

import pytest

from spark.streams import Stream, wait_for

MEMBER = {"kafka__heartbeat__interval__ms": "300"}
MODES = {
    "none": {},
    "member": MEMBER,
    "cooperative": MEMBER | {"kafka__partition__assignment__strategy": "cooperative-sticky"},
}
pytestmark = [
    pytest.mark.clients,
    pytest.mark.parametrize(
        ("topics", "mode"),
        [
            ("kohort", "none"),
            ("kohort", "member"),
            pytest.param("kohort", "cooperative", marks=pytest.mark.long),
            ("kafka", "member"),
        ],
        indirect=["topics"],
    ),
]

_numbers = count()
EACH = 5


@pytest.fixture
def orders(topics):
    """A topic of one partition with records."""
    name = f"changing-{next(_numbers)}"
    topics.create(name)
    topics.fill(name, {0: [b"old"] * EACH})
    return name


@pytest.fixture
def stream(session, topics, tmp_path, orders, mode):
    """A query that begins with what comes, unless it is told otherwise."""

    def make(**options):
        group = {"group__id": orders} if MODES[mode] else {}
        return Stream(session, topics.address, tmp_path, **group, **MODES[mode], **options)

    yield make
    for query in session.streams.active:
        query.stop()


@pytest.fixture
def running(stream):
    """A query that has begun."""

    def start(**options):
        reading = stream(**options)
        query = reading.start(processingTime="100 milliseconds")
        wait_for(lambda: query.lastProgress is not None, "begun", query)
        return reading, query

    return start


def found(reading):
    """(topic's end, partition, offset)."""
    return [(row.topic.rpartition("-")[2], row.partition, row.offset) for row in reading.rows()]


class TestWhileAQueryRuns:
    def test_a_partition_that_comes_is_read_from_its_first_record(self, running, orders, topics):
        reading, query = running(subscribe=orders)
        topics.grow(orders, 2)
        topics.fill(orders, {1: [b"new"] * EACH})
        wait_for(
            lambda: [row.offset for row in reading.rows() if row.partition == 1] == [*range(EACH)],
            "read",
            query,
        )

    def test_a_topic_that_comes_is_read_from_its_first_record(self, running, orders, topics):
        reading, query = running(subscribePattern=f"{orders}.*")
        topics.create(f"{orders}-more")
        topics.fill(f"{orders}-more", {0: [b"new"] * EACH})
        wait_for(lambda: found(reading) == [("more", 0, at) for at in range(EACH)], "read", query)

    def test_a_new_topic_is_read_although_starting_offsets_list_only_others(
        self, running, orders, topics
    ):
        reading, query = running(
            subscribePattern=f"{orders}.*", startingOffsets={orders: {"0": EACH - 1}}
        )
        topics.create(f"{orders}-more")
        topics.fill(f"{orders}-more", {0: [b"new"]})
        wait_for(lambda: [row.offset for row in reading.rows()] == [EACH - 1, 0], "read", query)

    def test_a_topic_that_was_empty(self, running, topics, orders):
        topics.create(f"{orders}-empty")
        reading, query = running(subscribe=f"{orders}-empty", startingOffsets="earliest")
        topics.fill(f"{orders}-empty", {0: [b"new"] * EACH})
        wait_for(lambda: found(reading) == [("empty", 0, at) for at in range(EACH)], "read", query)

    def test_one_that_is_deleted_ends_it(self, running, orders, topics):
        reading, query = running(subscribe=orders, startingOffsets="earliest")
        wait_for(lambda: len(reading.rows()) == EACH, "read", query)
        topics.delete(orders)
        wait_for(lambda: query.exception() is not None, "ended")
        assert f"{orders}-0 is gone, with what was behind offset {EACH}" in str(query.exception())

    def test_a_recreated_topic_is_read_without_fail_on_data_loss(self, running, orders, topics):
        reading, query = running(
            subscribePattern=f"{orders}.*", startingOffsets="earliest", failOnDataLoss="false"
        )
        wait_for(lambda: len(reading.rows()) == EACH, "read", query)
        topics.delete(orders)
        topics.create(f"{orders}-other")
        topics.fill(f"{orders}-other", {0: [b"other"]})
        wait_for(lambda: ("other", 0, 0) in found(reading), "the other one read", query)
        topics.create(orders)
        topics.fill(orders, {0: [b"again"] * 2})
        wait_for(
            lambda: sum(row.value == b"again" for row in reading.rows()) == 2, "read again", query
        )


class TestWhatIsGone:
    """Records that were deleted before they were read."""

    @pytest.fixture
    def stopped(self, stream, orders, topics):
        """A query that has read all there was; since then records came and most of them went."""

        def make(**options):
            reading = stream(subscribe=orders, startingOffsets="earliest", **options)
            reading.run()
            topics.fill(orders, {0: [b"new"] * EACH})
            topics.trim(orders, 0, 2 * EACH - 1)
            return reading

        return make

    def test_records_deleted_between_two_runs_end_the_query(self, stopped, orders):
        reading = stopped()
        gone = (
            f"{orders}-0 was to be read from offset {EACH}, its first record has offset "
            f"{2 * EACH - 1} now"
        )
        with pytest.raises(Exception, match=gone):
            reading.run()

    def test_records_deleted_between_two_runs_are_skipped_without_fail_on_data_loss(self, stopped):
        reading = stopped(failOnDataLoss="false")
        reading.run()
        assert reading.offsets() == {0: [*range(EACH), 2 * EACH - 1]}
