"""Streaming queries that are members of a group, through Spark."""

from itertools import count

import pytest

from spark.streams import PATIENCE_S, Stream, wait_for

pytestmark = pytest.mark.clients

_numbers = count()
PARTITIONS = 4
EACH = 10


@pytest.fixture
def orders(topics):
    """A topic of four partitions with ten records each."""
    name = f"member-{next(_numbers)}"
    topics.create(name, PARTITIONS)
    topics.fill(name, {each: [b"%d" % at for at in range(EACH)] for each in range(PARTITIONS)})
    return name


@pytest.fixture
def stream(session, topics, tmp_path, orders):
    """A query of the group named like the topic; each name has a table and a checkpoint."""
    made = []

    def make(name="query", **options):
        given = {"subscribe": orders, "startingOffsets": "earliest", "group__id": orders} | options
        reading = Stream(session, topics.address, tmp_path / name, **given)
        made.append(reading)
        return reading

    yield make
    for query in session.streams.active:
        query.stop()


def committed(topics, orders):
    return topics.committed(orders).get(orders, {})


def at_offset(found, offset):
    return {partition for partition, at in found.items() if at == offset}


def all_of(each=EACH, partitions=PARTITIONS):
    return {partition: list(range(each)) for partition in range(partitions)}


class TestAlone:
    def test_a_lone_member_reads_and_commits_everything_by_the_end_of_its_run(
        self, stream, orders, topics
    ):
        reading = stream()
        reading.run()
        assert reading.offsets() == all_of()
        assert committed(topics, orders) == dict.fromkeys(range(PARTITIONS), EACH)

    def test_a_next_run_of_a_member_reads_only_new_records(self, stream, orders, topics):
        reading = stream()
        reading.run()
        topics.fill(orders, {1: [b"x"] * 3})
        reading.run()
        assert reading.offsets() == all_of() | {1: list(range(EACH + 3))}
        assert committed(topics, orders)[1] == EACH + 3

    def test_batches_of_a_member_keep_max_offsets_per_trigger(self, stream, orders):
        progress = stream(maxOffsetsPerTrigger="20").run()
        assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [20, 20]

    def test_latest_is_pinned_when_the_query_joins(self, stream, orders, topics):
        reading = stream(startingOffsets="latest")
        reading.run()
        assert committed(topics, orders) == dict.fromkeys(range(PARTITIONS), EACH)
        topics.fill(orders, {2: [b"x"]})
        reading.run()
        assert reading.offsets() == {2: [EACH]}

    def test_lag_is_0_at_an_idle_trigger(self, stream, orders, topics):
        query = stream().start(processingTime="0 seconds")
        wait_for(
            lambda: committed(topics, orders) == dict.fromkeys(range(PARTITIONS), EACH),
            "committed",
            query,
        )
        topics.fill(orders, {3: [b"x"]})
        wait_for(lambda: committed(topics, orders).get(3) == EACH + 1, "committed again", query)

    def test_a_run_once_is_committed_in_the_next_run(self, stream, orders, topics):
        reading = stream()
        for done in (0, EACH):
            assert reading.start(once=True).awaitTermination(PATIENCE_S)
            assert reading.offsets() == all_of()
            assert committed(topics, orders) == dict.fromkeys(range(PARTITIONS), done)

    def test_a_stopped_query_leaves_its_group(self, stream, orders, topics):
        """Sooner than its session could expire."""
        query = stream(kafka__session__timeout__ms="600000").start(processingTime="0 seconds")
        wait_for(lambda: len(topics.members(orders)) == 1, "joined", query)
        query.stop()
        wait_for(lambda: topics.members(orders) == [], "left")

    def test_a_partition_that_is_new_is_read_from_its_first_record(self, stream, orders, topics):
        reading = stream(startingOffsets="latest")
        reading.run()
        topics.grow(orders, PARTITIONS + 1)
        topics.fill(orders, {PARTITIONS: [b"x", b"y"]})
        reading.run()
        assert reading.offsets() == {PARTITIONS: [0, 1]}


class TestTogether:
    def test_two_queries_share_and_one_takes_over(self, stream, orders, topics):
        first, second = stream("first"), stream("second")
        queries = [each.start(processingTime="0 seconds") for each in (first, second)]
        wait_for(
            lambda: [len(each) for each in topics.members(orders)] == [2, 2], "shared", queries[0]
        )
        topics.fill(orders, {each: [b"x"] * 5 for each in range(PARTITIONS)})
        wait_for(
            lambda: set(committed(topics, orders).values()) == {EACH + 5}, "committed", queries[1]
        )
        queries[0].stop()
        wait_for(
            lambda: [len(each) for each in topics.members(orders)] == [4], "taken over", queries[1]
        )
        topics.fill(orders, {each: [b"y"] * 5 for each in range(PARTITIONS)})
        wait_for(
            lambda: set(committed(topics, orders).values()) == {EACH + 10}, "committed", queries[1]
        )
        queries[1].stop()
        both = [(row.partition, row.offset) for each in (first, second) for row in each.rows()]
        assert sorted(both) == [(part, at) for part in range(PARTITIONS) for at in range(EACH + 10)]
        assert len([row for row in first.rows() if row.value == b"x"]) == 10

    def test_a_query_shares_partitions_with_a_plain_member(self, stream, orders, topics, member):
        reading = stream()
        query = reading.start(processingTime="0 seconds")
        wait_for(lambda: set(committed(topics, orders).values()) == {EACH}, "read", query)
        with member(orders, orders) as consumer:
            wait_for(
                lambda: consumer.poll(0.1) or sorted(map(len, topics.members(orders))) == [2, 2],
                "shared",
                query,
            )
            wait_for(
                lambda: len(consumer.assignment()) == 2 or consumer.poll(0.1), "assigned", query
            )
            theirs = {each.partition for each in consumer.assignment()}
            topics.fill(orders, {each: [b"x"] * 5 for each in range(PARTITIONS)})
            ours = set(range(PARTITIONS)) - theirs
            wait_for(
                lambda: (
                    {p for p, at in committed(topics, orders).items() if at == EACH + 5} == ours
                ),
                "read",
                query,
            )
            assert {part for part, found in reading.offsets().items() if len(found) > EACH} == ours
        wait_for(lambda: set(committed(topics, orders).values()) == {EACH + 5}, "taken over", query)


class TestRestart:
    def test_a_partition_that_another_member_read_on_is_not_read_again(
        self, stream, orders, topics
    ):
        first, second = stream("first"), stream("second")
        first.run()
        topics.fill(orders, {0: [b"x"] * 5})
        second.run()
        assert second.offsets() == {0: list(range(EACH, EACH + 5))}
        topics.fill(orders, {0: [b"y"] * 5})
        first.run()
        assert first.offsets() == all_of() | {0: [*range(EACH), *range(EACH + 5, EACH + 10)]}

    def test_a_query_that_is_no_member_any_more_goes_on_from_its_checkpoint(
        self, stream, orders, topics
    ):
        first, second = stream("first"), stream("second")
        first.run()
        topics.fill(orders, {0: [b"x"] * 5})
        second.run()
        topics.fill(orders, {0: [b"y"] * 5})
        first.run()  # begins behind what the second one read, which the checkpoint says
        stream("first", groupMode="none").run()
        assert first.offsets() == all_of() | {0: [*range(EACH), *range(EACH + 5, EACH + 10)]}

    def test_records_in_the_checkpoint_are_not_read_again_without_their_commit(
        self, stream, orders, topics
    ):
        reading = stream()
        reading.run()
        wait_for(lambda: topics.members(orders) == [], "left")
        topics.commit(orders, orders, dict.fromkeys(range(PARTITIONS), 5))
        reading.run()
        assert reading.offsets() == all_of()
        assert committed(topics, orders) == dict.fromkeys(range(PARTITIONS), EACH)
