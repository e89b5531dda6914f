"""The active segment is stored from time to time, so that a log that grows is opened soon."""

import asyncio
import random

import pytest

from kohort.log.base import LogConfig
from kohort.types import TopicPartition
from log.conftest import NOW, ORDERS, batch, fill, looked_up, records_of
from log.test_transactions import committed, end, write
from storage.postgres.conftest import waiting

OTHER = TopicPartition("payments", 0)
BEHIND = "select count(*) from batches where base >= (select coalesce(max(next), 0) from segments)"


async def test_few_rows_are_behind_what_is_stored(open_directory, sql):
    log = open_directory(most_rows=100).open(ORDERS, LogConfig())
    for first in range(0, 1_000, 50):
        fill(log, 50, first=first)
        await log.written()
    assert await sql.fetchval("select count(*) from batches") == 1_000
    assert await sql.fetchval(BEHIND) < 150
    assert await sql.fetchval("select count(*) from segments") == 1


async def test_few_rows_are_behind_when_each_owner_appends_few(open_directory, sql):
    for node in range(1, 21):
        directory = open_directory(node=node, most_rows=100)
        log = await asyncio.to_thread(directory.open, ORDERS, LogConfig())
        fill(log, 30, first=30 * node)
        await log.written()
        await asyncio.to_thread(directory.close)
    assert await sql.fetchval(BEHIND) < 200


async def test_a_sealed_segment_is_stored_whole(open_directory, sql):
    log = open_directory(most_rows=3).open(ORDERS, LogConfig(segment_bytes=2_000))
    for first in range(60):
        fill(log, 1, first=first)
        await log.written()
    ends = await sql.fetch("select base, next, is_open from segments order by base")
    bases = [segment.base_offset for segment in log.segments]
    assert [each["base"] for each in ends] == bases
    assert [each["next"] for each in ends[:-1]] == bases[1:]
    assert [each["is_open"] for each in ends] == [False] * (len(bases) - 1) + [True]


async def test_refused_batches_are_not_in_the_stored_active_segment(open_directory, sql):
    directory = open_directory(most_rows=3)
    log = directory.open(ORDERS, LogConfig())
    await sql.execute("alter table batches add check (base < 3)")
    async with sql.transaction():
        await sql.execute("lock table batches in share mode")
        fill(log, 3)
        await waiting(sql)
        fill(log, 2)  # behind what is in flight, and refused
    with pytest.raises(OSError, match="check"):
        await log.written()
    await operations_end(log)
    again = await asyncio.to_thread(open_directory(node=2).open, ORDERS, LogConfig())
    assert (again.end_offset, await sql.fetchval("select count(*) from segments")) == (3, 0)


async def test_an_active_segment_stored_late_has_no_refused_batches(open_directory, sql):
    """The operation comes to it when the append that it waits for has failed long ago."""
    directory = open_directory(most_rows=3)
    log, other = (directory.open(each, LogConfig()) for each in (ORDERS, OTHER))
    fill(other, 2)
    await other.durable()
    await sql.execute("alter table batches add check (base < 3)")
    async with sql.transaction():
        await sql.execute("lock table logs in share mode")
        other.trim(1)
        await waiting(sql)
        locking = sql.transaction()
        await locking.start()
        await sql.execute("lock table batches in share mode")
        fill(log, 3)
        await waiting(sql, 2)
        fill(log, 2)
        await locking.rollback()
        with pytest.raises(OSError, match="check"):
            await log.written()
    await operations_end(log)
    again = await asyncio.to_thread(open_directory(node=2).open, ORDERS, LogConfig())
    assert (again.end_offset, await sql.fetchval("select count(*) from segments")) == (3, 0)


async def operations_end(log):
    """Return when nothing is left to be done of a log that has ended."""
    while not log.can_reopen:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def seen(log):
    """All that readers and producers see of a log."""
    return {
        "offsets": [record.offset for record in records_of(log)],
        "committed": committed(log),
        "ends": (log.start_offset, log.last_stable_offset, log.end_offset, log.size),
        "segments": [(segment.base_offset, segment.size) for segment in log.segments],
        "latest": looked_up(log.max_timestamp()),
        "times": [looked_up(log.offset_for_timestamp(NOW + at)) for at in range(0, 900, 30)],
    }


async def work(log, rng, first_producer=0):
    """Append records and transactions of three producers, which end some of them."""
    begun, sequences = set(), [0, 0, 0]
    for _ in range(rng.randrange(20, 300)):
        number = rng.randrange(3)
        producer = first_producer + number
        match rng.randrange(8):
            case 0 | 1:
                begun.add(producer)
                write(log, producer, sequence=sequences[number], count=2)
                sequences[number] += 2
            case 2 if producer in begun:
                begun.remove(producer)
                end(log, producer, commit=rng.random() < 0.4)
            case 3:
                await log.written()
            case _:
                value, timestamp = bytes(rng.choice((9, 99, 999))), NOW + rng.randrange(900)
                log.append(batch(value, timestamp=timestamp), NOW)
    await log.written()


@pytest.mark.parametrize("seed", range(12))
async def test_a_log_is_opened_as_if_nothing_was_stored(open_directory, sql, seed):
    rng = random.Random(seed)
    config = LogConfig(segment_bytes=rng.choice((3_000, 30_000, 1 << 20)))
    log = open_directory(most_rows=rng.choice((1, 5, 40))).open(ORDERS, config)
    await work(log, rng)
    whole = await asyncio.to_thread(seen, log)
    stored = await asyncio.to_thread(open_directory(node=2).open, ORDERS, config)
    assert await asyncio.to_thread(seen, stored) == whole
    await sql.execute("delete from segments where is_open")
    by_rows = await asyncio.to_thread(open_directory(node=3).open, ORDERS, config)
    assert await asyncio.to_thread(seen, by_rows) == whole


def known(log):
    """What the log itself goes by, besides."""
    return seen(log) | {
        "producers": [*log.active_producers()],
        "epochs": log.leader_epochs.entries(log.start_offset),
        "aborted": [[*segment.aborted.entries()] for segment in log.segments],
        "timestamps": [
            (segment.first_timestamp, segment.max_timestamp) for segment in log.segments
        ],
    }


@pytest.mark.parametrize("seed", range(12))
async def test_a_stored_active_segment_agrees_with_the_batches(open_directory, sql, seed):
    """After owners that have deleted records, each in an epoch of its own."""
    rng = random.Random(seed)
    config = LogConfig(
        segment_bytes=rng.choice((3_000, 30_000, 1 << 20)),
        retention_bytes=rng.choice((-1, 10_000)),
    )

    def opened(node, most_rows):
        directory = open_directory(node=node, most_rows=most_rows)
        return directory.open(ORDERS, config, leader_epoch=min(node, 5))

    for node in range(1, 5):
        log = await asyncio.to_thread(opened, node, rng.choice((1, 5, 40)))
        await work(log, rng, first_producer=10 * node)
        log.trim(rng.randrange(log.start_offset, log.high_watermark + 1))
        await log.retain(NOW)
        await log.written()
    whole = await asyncio.to_thread(known, await asyncio.to_thread(opened, 5, 1))
    await sql.execute("delete from segments where is_open")
    assert await asyncio.to_thread(known, await asyncio.to_thread(opened, 6, 1)) == whole


@pytest.mark.parametrize("seed", range(4))
async def test_each_owner_goes_on_where_the_former_was(open_directory, seed):
    rng = random.Random(seed)
    config = LogConfig(segment_bytes=rng.choice((5_000, 1 << 20)))
    for node in range(1, 6):
        log = await asyncio.to_thread(open_directory(node=node, most_rows=7).open, ORDERS, config)
        for _ in range(3):
            fill(log, rng.randrange(1, 30))
            await log.written()
        write(log, node)
        end(log, node)
        await log.written()
        whole = await asyncio.to_thread(seen, log)
    again = await asyncio.to_thread(open_directory(node=9).open, ORDERS, config)
    assert await asyncio.to_thread(seen, again) == whole
    assert len(again.segments) == len(log.segments)
