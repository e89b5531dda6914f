"""A query's membership without Spark: boundaries, batches in flight, and what happens to slow ones
and dead ones.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.spark import background, member_stream
from kohort.spark.member_stream import MemberStreamReader
from kohort.spark.membership import QueryMember
from kohort.spark.options import parse_read
from kohort.spark.positions import from_spark
from kohort.types import GroupId, TopicPartition
from spark.streams import wait_for
from spark.topics import Topics

PATIENCE_S = 60.0
"""Of a boundary: far more than any of these rebalances takes."""


@pytest.fixture
async def member(topics, monkeypatch):
    """Makes members of group and topic NAME, on this loop; they leave at the end."""
    made = []
    clusters = {}

    async def cluster(kafka):
        if kafka not in clusters:
            clusters[kafka] = Cluster(ClientConfig(bootstrap=topics.address))
        return clusters[kafka]

    monkeypatch.setattr(background, "cluster", cluster)

    def make(name, **options):
        given = {
            "kafka.bootstrap.servers": topics.address,
            "subscribe": name,
            "group.id": name,
            "startingOffsets": "earliest",
            "kafka.session.timeout.ms": "6000",
            "kafka.heartbeat.interval.ms": "200",
            "kafka.max.poll.interval.ms": "10000",
        }
        made.append(QueryMember(parse_read(given | options, streaming=True)))
        return made[-1]

    yield make
    await asyncio.gather(*(each.close() for each in made))
    for each in clusters.values():
        await each.close()


@pytest.fixture
def topic(topics, request):
    async def make(partitions=2, records=10):
        name = f"membership-{re.sub('[^a-z0-9]+', '-', request.node.name.lower())}"
        await asyncio.to_thread(topics.create, name, partitions)
        values = {each: [b"v"] * records for each in range(partitions)}
        await asyncio.to_thread(topics.fill, name, values)
        return name

    return make


async def committed(topics: Topics, name):
    return (await asyncio.to_thread(topics.committed, name)).get(name, {})


def positions(name, *offsets):
    return {TopicPartition(name, each): offset for each, offset in enumerate(offsets)}


async def test_processed_offsets_are_committed_when_the_batch_is_finished(member, topic, topics):
    name = await topic()
    query = member(name)
    assert await query.finish_batch({}, PATIENCE_S) == positions(name, 0, 0)
    assert query.start_batch({}, {})
    assert await query.finish_batch(positions(name, 10, 4), PATIENCE_S) == positions(name, 10, 4)
    assert await committed(topics, name) == {0: 10, 1: 4}


async def test_a_member_of_the_consumer_protocol_commits_at_the_boundary(member, topic, topics):
    name = await topic(partitions=2)
    query = member(name, groupProtocol="consumer")
    assert await query.finish_batch({}, PATIENCE_S) == positions(name, 0, 0)
    assert query.start_batch(positions(name, 5, 4), {})
    assert await query.finish_batch(positions(name, 5, 4), PATIENCE_S) == positions(name, 5, 4)
    await query.close()
    assert await committed(topics, name) == {0: 5, 1: 4}


async def test_no_partition_is_revoked_while_a_batch_is_in_flight(member, topic, topics):
    name = await topic()
    first = member(name)
    await first.finish_batch({}, PATIENCE_S)
    assert first.start_batch({}, {})
    second = member(name)
    assert await second.finish_batch({}, 1.5) is None, "the group waits for the first one's batch"
    mine, theirs = await asyncio.gather(
        first.finish_batch(positions(name, 10, 10), PATIENCE_S), second.finish_batch({}, PATIENCE_S)
    )
    assert mine | theirs == positions(name, 10, 10)
    assert len(mine) == len(theirs) == 1


async def test_a_batch_that_takes_too_long_is_read_again_by_the_new_owner(member, topic, topics):
    name = await topic()
    first = member(name, **{"kafka.max.poll.interval.ms": "3000"})
    await first.finish_batch({}, PATIENCE_S)
    assert first.start_batch({}, {})
    second = member(name, **{"kafka.max.poll.interval.ms": "3000"})
    theirs = await second.finish_batch({}, PATIENCE_S)
    assert list(theirs.values()) == [0], "what the slow batch reads is not committed"
    mine = await first.finish_batch(positions(name, 10, 10), PATIENCE_S)
    assert mine.keys().isdisjoint(theirs)
    assert await committed(topics, name) == {
        tp.partition: offset for tp, offset in (mine | theirs).items()
    }


async def test_a_batch_does_not_begin_while_the_group_rebalances(member, topic):
    name = await topic()
    first = member(name)
    await first.finish_batch({}, PATIENCE_S)
    second = member(name)
    waiting = asyncio.create_task(second.finish_batch({}, PATIENCE_S))
    async with asyncio.timeout(PATIENCE_S):
        while first.start_batch(
            {}, {}
        ):  # as queries do: batch after batch, until one is not to begin
            assert len(await first.finish_batch(positions(name, 0, 0), PATIENCE_S)) == 2
            # Spark's thread is another one; here the group shares the loop with us
            await asyncio.sleep(0)
        mine = await first.finish_batch(positions(name, 0, 0), PATIENCE_S)
        assert mine.keys().isdisjoint(await waiting)
    assert first.start_batch({}, {})
    assert second.start_batch({}, {})


async def has_left(member, generation):
    async with asyncio.timeout(PATIENCE_S):
        while member.generation is generation:
            member._changed.clear()
            await member._changed.wait()


async def test_a_batch_does_not_begin_with_what_a_whole_rebalance_gave_away(member, topic):
    name = await topic()
    first = member(name)
    await first.finish_batch({}, PATIENCE_S)
    before = first.generation
    theirs = await member(name).finish_batch({}, PATIENCE_S)
    await has_left(first, before)
    assert not first.start_batch({}, {})
    mine = await first.finish_batch({}, PATIENCE_S)
    assert mine.keys().isdisjoint(theirs)
    assert first.start_batch({}, {})


async def test_a_rebalance_while_it_asks_where_to_begin(member, topic, monkeypatch):
    name = await topic()
    first, asked = member(name), asyncio.Event()
    existing = first._offset_queries.existing

    async def slow():
        found = await existing()
        await asked.wait()
        return found

    monkeypatch.setattr(first._offset_queries, "existing", slow)
    waiting = asyncio.create_task(first.finish_batch({}, PATIENCE_S))
    await has_left(first, None)
    before = first.generation
    theirs = await member(name).finish_batch({}, PATIENCE_S)
    await has_left(first, before)
    asked.set()
    mine = await waiting
    assert mine | theirs == positions(name, 0, 0)
    assert len(mine) == len(theirs) == 1


async def test_the_first_records_of_a_partition_that_came_later_are_not_skipped(
    member, topic, topics
):
    """Whoever gets it: here a member that has never seen the topic without it."""
    name = await topic(partitions=1)
    first = member(name, startingOffsets="latest")
    assert await first.finish_batch({}, PATIENCE_S) == positions(name, 10)
    await asyncio.to_thread(topics.grow, name, 2)
    await asyncio.to_thread(topics.fill, name, {1: [b"early"] * 7})
    second = member(name, startingOffsets="latest")
    async with asyncio.timeout(PATIENCE_S):
        held = {}
        while len(held) < 2:
            mine, theirs = await asyncio.gather(
                *(each.finish_batch({}, PATIENCE_S) for each in (first, second))
            )
            held = mine | theirs
    assert held == positions(name, 10, 0)


async def test_members_that_begin_together_all_begin_where_they_are_told(member, topic):
    name = await topic()
    another = {
        TopicPartition(name, 0): OffsetAndMetadata(offset=4, metadata="begun in generation 1")
    }
    await Admin(await background.cluster(())).commit(GroupId(name), another)
    query = member(name, startingOffsets="latest")
    assert await query.finish_batch({}, PATIENCE_S) == positions(name, 4, 10)
    assert query.generation.id == 1


async def test_a_partition_begun_by_the_group_keeps_its_start_offset(member, topic):
    name = await topic()
    query = member(name, startingOffsets="latest")
    assert await query.finish_batch({}, PATIENCE_S) == positions(name, 10, 10)
    group = GroupId(name)
    told = (await Admin(await background.cluster(())).committed([group]))[group]
    assert {each.metadata for each in told.values()} == {"begun in generation 1"}
    assert await query.finish_batch(positions(name, 11, 10), PATIENCE_S) == positions(name, 11, 10)
    await query.close()
    assert await member(name, startingOffsets="earliest").finish_batch({}, PATIENCE_S) == positions(
        name, 11, 10
    )


async def test_the_further_of_commit_and_checkpoint_counts(member, topic, topics):
    name = await topic(partitions=3)
    await asyncio.to_thread(topics.commit, name, name, {0: 7, 1: 3})
    query = member(name)
    checkpoint = {TopicPartition(name, 0): 2, TopicPartition(name, 1): 5}
    assert await query.finish_batch(checkpoint, PATIENCE_S) == positions(name, 7, 5, 0)
    assert await committed(topics, name) == {0: 7, 1: 5, 2: 0}


async def test_offsets_that_begin_again_are_gone_on_from(member, topic, topics):
    name = await topic(partitions=1)
    query = member(name)
    await query.finish_batch(positions(name, 100), PATIENCE_S)
    query.reset_positions(positions(name, 4))
    assert await query.finish_batch(positions(name, 4), PATIENCE_S) == positions(name, 4)


async def test_the_error_that_ends_a_membership_is_raised(member, topic):
    name = await topic()
    query = member(name, **{"kafka.session.timeout.ms": "3600000"})
    with pytest.raises(
        Exception,
        match=(r"session_timeout_ms is outside the broker's group\.min\.session\.timeout\.ms"),
    ):
        await query.finish_batch({}, PATIENCE_S)


@pytest.fixture
def reader(topics):
    """Makes readers of group and topic NAME, as Spark holds one for each source of a query."""
    made = []

    def make(name, max_poll_interval_ms=20_000):
        given = {
            "kafka.bootstrap.servers": topics.address, "subscribe": name, "group.id": name,
            "startingOffsets": "earliest", "kafka.session.timeout.ms": "6000",
            "kafka.heartbeat.interval.ms": "200",
            "kafka.max.poll.interval.ms": str(max_poll_interval_ms),
        }  # fmt: skip
        made.append(MemberStreamReader(parse_read(given, streaming=True)))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def trigger(sources, offsets, limit):
    """What Spark asks of all sources of a query at each trigger: the ends of a micro-batch."""
    return [each.latestOffset(at, limit) for each, at in zip(sources, offsets, strict=True)]


@pytest.fixture
def sources(reader, topic):
    """Two sources of one query, before its first trigger; both read one topic in one group."""
    name = asyncio.run(topic(partitions=4, records=1000))
    found = [reader(name), reader(name)]
    for each in found:
        each.getDefaultReadLimit()
    return name, found


def test_the_sources_of_a_query_share_the_partitions_from_the_first_trigger_on(sources):
    """It may be the only one."""
    name, both = sources
    mine, theirs = map(from_spark, trigger(both, ({}, {}), ReadAllAvailable()))
    assert len(mine) == len(theirs) == 2
    assert mine | theirs == positions(name, *[1000] * 4)


def test_a_source_whose_query_does_not_begin_leaves_and_joins_again_when_it_does(
    reader, topic, topics
):
    """Spark stops no source if another one of the query does not start."""
    name = asyncio.run(topic(partitions=1, records=3))
    source = reader(name, max_poll_interval_ms=1_000)
    source.getDefaultReadLimit()
    assert [len(each) for each in topics.members(name)] == [1]
    wait_for(lambda: topics.members(name) == [], "left")
    assert from_spark(source.latestOffset({}, ReadAllAvailable())) == positions(name, 3)
    assert [len(each) for each in topics.members(name)] == [1]


@pytest.mark.parametrize("is_run", [False, True])
def test_a_source_does_not_wait_for_another_of_its_query_to_end_its_micro_batch(
    sources, reader, topics, monkeypatch, is_run
):
    """The one that the group revokes partitions of first sits out a trigger."""
    name, both = sources
    monkeypatch.setattr(member_stream, "ASSIGNMENT_WAIT_S", 5.0)
    if is_run:
        for each in both:
            each.prepareForTriggerAvailableNow()
    third, ends, sat_out = reader(name), [{}, {}], 0
    with ThreadPoolExecutor(1) as executor:
        joined = executor.submit(third.getDefaultReadLimit)
        while not joined.done():
            before = ends
            ends = trigger(both, before, ReadMaxRows(4))
            stood = [
                at == end
                for at, end in zip(map(from_spark, before), map(from_spark, ends), strict=True)
            ]
            if any(stood):
                sat_out += 1
                same = [at == end for at, end in zip(before, ends, strict=True)]
                assert any(same) is not is_run, "an idle trigger would end a run"
        joined.result()
    assert sat_out == 1
    trigger(both, ends, ReadMaxRows(4))
    expected = {}
    for at in map(from_spark, ends):
        for tp, offset in at.items():
            expected[tp.partition] = max(offset, expected.get(tp.partition, 0))
    committed = topics.committed(name)[name]
    # A partition that it gave up before it read a record of it may be committed at its start.
    assert read_of(committed) == read_of(expected), "no micro-batch was fenced"


def read_of(offsets):
    """The offsets of the partitions of which records were read."""
    return {partition: offset for partition, offset in offsets.items() if offset}


async def test_a_static_member_comes_back_to_its_partitions(member, topic, topics):
    name = await topic()
    for _ in range(2):
        query = member(name, **{"kafka.group.instance.id": "etl-1"})
        assert await query.finish_batch({}, PATIENCE_S) == positions(name, 0, 0)
        await query.close()
        assert [len(each) for each in await asyncio.to_thread(topics.members, name)] == [2], (
            "it does not leave"
        )
