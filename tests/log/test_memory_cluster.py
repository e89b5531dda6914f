"""Logs in memory that move between nodes."""

from uuid import UUID

import pytest

from kohort.cluster import LEASE_MS, FencedError, Logged
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import scan
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.protocol import batches

from .conftest import NOW, ORDERS, ORDERS_ID, batch, from_producer, values_of

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=100, min_cleanable_dirty_ratio=0.0
)


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def nodes(clock):
    shared = MemoryCluster(clock)
    nodes = [MemoryStorage(shared, node) for node in (1, 2)]
    for node in nodes:
        await node.claim()
    return nodes


def metadata(offset):
    return offset.to_bytes(8) + batches.pack([(b"k", b"%d" % offset)], NOW)[8:]


def epochs_of(log):
    return [header.partition_leader_epoch for _, header in batches.iterate(log.read(0, 100_000))]


@pytest.mark.parametrize("log_append_time", [False, True])
async def test_a_log_that_moves_has_all_batches_with_their_epochs(nodes, log_append_time):
    config = LogConfig(log_append_time=log_append_time)
    for epoch, node in ((3, nodes[0]), (4, nodes[1]), (7, nodes[0])):
        log = await node.logs.take(ORDERS, ORDERS_ID, config, epoch, 0)
        assert log.leader_epoch == epoch
        log.append(batch(b"%d" % epoch), NOW)
        log.append(from_producer(5, 0, log.end_offset // 2), NOW)
        data = log.read(0, 100_000)
        assert epochs_of(log) == [e for e in (3, 4, 7) if e <= epoch for _ in range(2)]
        await node.logs.release(ORDERS)
        with pytest.raises(KafkaError) as refused:
            log.append(batch(b"late"), NOW)
        assert refused.value.code is ErrorCode.not_leader_or_follower
    assert [header.producer_id for _, header in batches.iterate(data)] == [-1, 5] * 3
    epochs = log.leader_epochs
    assert [epochs.end_of(epoch, 0, 6) for epoch in (3, 5, 7)] == [(3, 2), (4, 4), (7, 6)]


async def test_compaction_leaves_each_batch_its_epoch(nodes):
    for epoch, node in enumerate(nodes):
        log = await node.logs.take(ORDERS, ORDERS_ID, COMPACTED, epoch, 0)
        for key in (b"a", b"b"):
            log.append(batch(b"%d" % epoch, key=key + b"%d" % epoch), NOW)
            log.append(batch(b"%d" % epoch, key=key), NOW)
        await node.logs.release(ORDERS)
    log = await nodes[0].logs.take(ORDERS, ORDERS_ID, COMPACTED, 2, 0)
    assert await log.compact(NOW)
    left = [
        (header.base_offset, header.partition_leader_epoch)
        for segment in log.segments
        for _, header in scan.headers(segment.log, 0)
    ]
    assert all(epoch == (offset >= 4) for offset, epoch in left)


async def test_a_fenced_node_appends_nothing(nodes, clock):
    one, two = nodes
    log = await one.logs.take(ORDERS, ORDERS_ID, LogConfig(), 0, 0)
    log.append(batch(b"a"), NOW)
    assert await two.append(0, metadata(0), {1: one.session})
    with pytest.raises(KafkaError):
        log.append(batch(b"b"), NOW)
    for refused in (one.renew(), one.append(1, metadata(1), {})):
        with pytest.raises(FencedError):
            await refused
    taken = await two.logs.take(ORDERS, ORDERS_ID, LogConfig(), 1, 0)
    assert values_of(taken, 0) == [b"a"]
    former = one.session
    await one.claim()
    assert one.session > former
    assert await one.append(1, metadata(1), {2: two.session - 1})
    await two.renew()


async def test_the_metadata_log_takes_a_batch_only_at_its_end(nodes):
    one, two = nodes
    assert await one.append(0, metadata(0), {})
    assert not await two.append(0, metadata(0), {1: one.session})
    await one.renew()
    await two.wait_beyond(0)
    assert await two.append(1, metadata(1), {})
    assert await one.read(1) == Logged(metadata(1))
    assert await one.read(2) == Logged(b"")


async def test_one_process_has_a_node(nodes, clock):
    other = MemoryStorage(MemoryCluster(clock), 1)
    await other.claim()
    observed = await nodes[0].observe()
    assert not observed.is_gone(1, nodes[0].session)
    clock.now += LEASE_MS
    assert (await nodes[0].observe()).is_gone(1, nodes[0].session)


async def test_another_process_gets_a_node_that_is_gone(clock):
    shared = MemoryCluster(clock)
    former, later = MemoryStorage(shared, 1), MemoryStorage(shared, 1)
    await former.claim()
    with pytest.raises(KohortError):
        await later.claim()
    shared.crash(1)
    await later.claim()
    with pytest.raises(FencedError):
        await former.renew()
    await later.release()
    assert (await former.observe()).is_gone(1, later.session)


async def test_a_new_topic_of_the_same_name_has_a_log_of_its_own(nodes):
    log = await nodes[0].logs.take(ORDERS, ORDERS_ID, LogConfig(), 0, 0)
    log.append(batch(b"a"), NOW)
    log = await nodes[1].logs.take(ORDERS, UUID(int=99), LogConfig(), 0, 0)
    assert log.end_offset == 0


async def test_a_node_behind_the_metadata_log_does_not_replace_a_topic(nodes):
    one, two = nodes
    log = await one.logs.take(ORDERS, ORDERS_ID, LogConfig(), 0, 0)
    log.append(batch(b"a"), NOW)
    assert await one.append(0, metadata(0), {})
    with pytest.raises(OSError, match="another topic"):
        await two.logs.take(ORDERS, UUID(int=99), LogConfig(), 0, 0)
    assert (await two.logs.take(ORDERS, UUID(int=99), LogConfig(), 0, 1)).end_offset == 0


async def test_a_read_from_within_a_snapshot_returns_all_of_it(nodes):
    one, two = nodes
    for offset in range(4):
        assert await one.append(offset, metadata(offset), {})
    await one.compact(3, [metadata(1), metadata(2)])
    await two.compact(2, [])  # another node has done more
    assert await two.read(2) == Logged(metadata(1) + metadata(2), 3)
    assert await two.read(3) == Logged(metadata(3))


async def read_all(standby):
    """The batches that a standby reads, one read after the other."""
    found, offset = [], (await standby.source.checkpoint()).start_offset
    while data := await standby.source.read_on(offset):
        found += [header.base_offset for _, header in batches.iterate(data)]
        offset = found[-1] + 1
    return found


async def test_the_next_leader_reads_what_the_leader_appends(nodes):
    config = LogConfig(segment_bytes=200)
    log = await nodes[0].logs.take(ORDERS, ORDERS_ID, config, 0, 0)
    standby = nodes[1].logs.stand_by(ORDERS, ORDERS_ID, config)
    with pytest.raises(KafkaError) as refused:
        standby.read(0, 100)
    assert refused.value.code is ErrorCode.not_leader_or_follower
    for count in (0, 3, 5):
        while log.end_offset < count:
            log.append(batch(b"%d" % log.end_offset), NOW)
        assert await read_all(standby) == list(range(count))
    assert len(log.segments) > 1
    assert await standby.source.read_on(5) == b""


async def test_the_checkpoint_tells_that_batches_were_removed(nodes):
    log = await nodes[0].logs.take(ORDERS, ORDERS_ID, COMPACTED, 0, 0)
    for value in range(4):
        log.append(batch(b"%d" % value, key=b"a"), NOW)
    standby = nodes[1].logs.stand_by(ORDERS, ORDERS_ID, COMPACTED)
    before = await standby.source.checkpoint()
    assert before == log.checkpoint
    assert await log.compact(NOW)
    await nodes[0].logs.release(ORDERS)
    taken = await nodes[1].logs.take(ORDERS, ORDERS_ID, COMPACTED, 1, 0)
    assert before != taken.checkpoint
    assert await nodes[0].logs.stand_by(ORDERS, ORDERS_ID, COMPACTED).source.checkpoint() == (
        taken.checkpoint
    )


async def test_a_standby_reads_nothing_before_the_leader_has_created_the_log(nodes):
    standby = nodes[1].logs.stand_by(ORDERS, ORDERS_ID, LogConfig())
    assert await read_all(standby) == []
    assert await standby.source.checkpoint() == Checkpoint()
