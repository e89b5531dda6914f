"""Streaming reads whose positions are the checkpoint's, through Spark."""

from itertools import count

import pytest

from spark.streams import Stream, wait_for
from spark.topics import NOW

pytestmark = pytest.mark.clients

_numbers = count()


@pytest.fixture
def orders(topics):
    """A topic of two partitions with 10 and 20 records."""
    name = f"stream-{next(_numbers)}"
    topics.create(name, 2)
    topics.fill(name, {0: [b"a%d" % at for at in range(10)], 1: [b"b%d" % at for at in range(20)]})
    return name


@pytest.fixture
def stream(session, topics, tmp_path):
    def make(**options):
        return Stream(session, topics.address, tmp_path, **options)

    return make


def upto(first, second):
    return {0: list(range(first)), 1: list(range(second))}


class TestWhatThereIs:
    def test_a_next_run_reads_only_new_records(self, stream, orders, topics):
        reading = stream(subscribe=orders, startingOffsets="earliest")
        reading.run()
        assert reading.offsets() == upto(10, 20)
        topics.fill(orders, {0: [b"c"] * 5})
        reading.run()
        assert reading.offsets() == upto(15, 20)
        assert [each["numInputRows"] for each in reading.run() if each["numInputRows"]] == []

    def test_latest_is_where_the_query_started(self, stream, orders, topics):
        reading = stream(subscribe=orders)
        query = reading.start(processingTime="0 seconds")
        try:
            wait_for(lambda: query.lastProgress is not None, "started", query)
            topics.fill(orders, {1: [b"new"]})
            wait_for(lambda: reading.offsets() == {1: [20]}, "read", query)
        finally:
            query.stop()

    def test_a_stream_starts_at_the_offsets_of_an_option(self, stream, orders):
        reading = stream(subscribe=orders, startingOffsets={orders: {"0": 8, "1": -1}})
        reading.run()
        assert reading.offsets() == {0: [8, 9]}

    def test_a_stream_starts_at_a_timestamp(self, stream, orders):
        reading = stream(
            subscribe=orders,
            startingTimestamp=str(NOW + 15),
            startingOffsetsByTimestampStrategy="latest",
        )
        reading.run()
        assert reading.offsets() == {1: [15, 16, 17, 18, 19]}

    def test_offsets_are_told_as_spark_does(self, stream, orders):
        (progress, *_) = stream(subscribe=orders, startingOffsets="earliest").run()
        told = progress["sources"][0]["endOffset"]
        assert told == {"@ids": {orders: told["@ids"][orders]}, orders: {"0": 10, "1": 20}}


class TestBatches:
    def test_micro_batches_keep_max_offsets_per_trigger(self, stream, orders):
        reading = stream(subscribe=orders, startingOffsets="earliest", maxOffsetsPerTrigger="9")
        progress = reading.run()
        assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [9, 9, 9, 3]
        assert reading.offsets() == upto(10, 20)

    def test_no_micro_batch_is_run_without_new_records(self, stream, orders):
        reading = stream(subscribe=orders, startingOffsets="earliest")
        reading.run()
        query = reading.start(processingTime="0 seconds")
        try:
            wait_for(lambda: query.status["message"] == "Waiting for data to arrive", "idle", query)
            assert sum(each["numInputRows"] for each in query.recentProgress) == 0
            assert {each["batchId"] for each in query.recentProgress} <= {1}
        finally:
            query.stop()


class TestTopics:
    def test_a_partition_that_is_new_is_read_from_its_first_record(self, stream, orders, topics):
        reading = stream(subscribe=orders)
        reading.run()
        topics.grow(orders, 3)
        topics.fill(orders, {2: [b"x", b"y"]})
        reading.run()
        assert reading.offsets() == {2: [0, 1]}

    def test_a_pattern_finds_new_topics(self, stream, orders, topics):
        reading = stream(subscribePattern=f"{orders}.*", startingOffsets="earliest")
        reading.run()
        topics.create(f"{orders}-more")
        topics.fill(f"{orders}-more", {0: [b"x"]})
        reading.run()
        assert [(row.topic, row.offset) for row in reading.rows()][-1] == (f"{orders}-more", 0)
        assert len(reading.rows()) == 31

    def test_one_that_does_not_exist(self, stream):
        with pytest.raises(Exception, match="option subscribe: topic nowhere does not exist"):
            stream(subscribe="nowhere").run()

    def test_one_that_is_deleted_ends_the_query(self, stream, orders, topics):
        reading = stream(subscribe=orders, startingOffsets="earliest")
        reading.run()
        topics.delete(orders)
        with pytest.raises(
            Exception,
            match=(f"{orders}-0 is gone, with what was behind offset 10; set failOnDataLoss"),
        ):
            reading.run()

    def test_a_topic_created_again_is_read_from_its_first_record(self, stream, orders, topics):
        stream(subscribePattern=f"{orders}|other", startingOffsets="earliest").run()
        topics.delete(orders)
        reading = stream(
            subscribePattern=f"{orders}|other", startingOffsets="earliest", failOnDataLoss="false"
        )
        reading.run()
        topics.create(orders)
        topics.fill(orders, {0: [b"again"] * 3})
        reading.run()
        assert [row.offset for row in reading.rows() if row.value == b"again"] == [0, 1, 2]

    def test_one_that_is_created_again_is_another_one(self, stream, orders, topics):
        given = {"subscribe": orders, "startingOffsets": "earliest"}
        stream(**given).run()
        topics.delete(orders)
        topics.create(orders)
        topics.fill(orders, {0: [b"again"] * 20})
        with pytest.raises(Exception, match=f"{orders}-0 was deleted and created again"):
            stream(**given).run()
        reading = stream(failOnDataLoss="false", **given)
        reading.run()
        reading.run()
        again = [row.offset for row in reading.rows() if row.value == b"again"]
        assert again == list(range(20))


class TestWhatIsGone:
    def test_records_deleted_before_they_are_read_end_the_query(self, stream, orders, topics):
        reading = stream(
            subscribe=orders, startingOffsets={orders: {"0": 2, "1": 0}}, maxOffsetsPerTrigger="3"
        )
        topics.trim(orders, 0, 6)
        with pytest.raises(
            Exception,
            match=(f"{orders}-0 was to be read from offset 2, its first record has offset 6"),
        ):
            reading.run()

    def test_records_deleted_before_they_are_read_are_skipped_without_fail_on_data_loss(
        self, stream, orders, topics
    ):
        topics.trim(orders, 0, 6)
        reading = stream(
            subscribe=orders, startingOffsets={orders: {"0": 2, "1": 20}}, failOnDataLoss="false"
        )
        reading.run()
        assert reading.offsets() == {0: [6, 7, 8, 9]}


class TestReporting:
    def test_a_reporting_query_commits_by_the_end_of_its_run(self, stream, orders, topics):
        group = f"lag-{orders}"
        reading = stream(
            subscribe=orders, startingOffsets="earliest", group__id=group, groupMode="reporting"
        )
        reading.run()
        assert topics.committed(group) == {orders: {0: 10, 1: 20}}

    def test_a_running_reporting_query_commits_at_the_next_trigger(self, stream, orders, topics):
        group = f"lag-{orders}"
        reading = stream(
            subscribe=orders, startingOffsets="earliest", group__id=group, groupMode="reporting"
        )
        query = reading.start(processingTime="0 seconds")
        try:
            wait_for(
                lambda: topics.committed(group) == {orders: {0: 10, 1: 20}}, "committed", query
            )
            topics.fill(orders, {0: [b"c"] * 5})
            wait_for(
                lambda: topics.committed(group) == {orders: {0: 15, 1: 20}},
                "committed again",
                query,
            )
        finally:
            query.stop()

    def test_a_group_that_has_members_refuses_and_the_query_goes_on(
        self, stream, orders, topics, member
    ):
        group = f"lag-{orders}"
        with member(group, orders):
            reading = stream(
                subscribe=orders, startingOffsets="earliest", group__id=group, groupMode="reporting"
            )
            reading.run()
        assert reading.offsets() == upto(10, 20)
        assert topics.committed(group) == {}

    def test_without_a_group_nothing_is_committed(self, stream, orders, topics):
        reading = stream(
            subscribe=orders, startingOffsets="earliest", group__id="none-of-it", groupMode="none"
        )
        reading.run()
        assert topics.committed("none-of-it") == {}

    def test_the_group_that_brokers_authorize_has_no_members_and_offsets(
        self, stream, orders, topics
    ):
        group = f"authorized-{orders}"
        reading = stream(subscribe=orders, startingOffsets="earliest", kafka__group__id=group)
        query = reading.start(processingTime="0 seconds")
        try:
            wait_for(lambda: reading.offsets() == upto(10, 20), "read", query)
            assert topics.members(group) == []
        finally:
            query.stop()
        assert topics.committed(group) == {}
