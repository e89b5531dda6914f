"""Records that are in the tables and not in memory."""

import asyncio

import pytest

from kohort.errors import KafkaError
from kohort.log.base import LogConfig
from kohort.protocol import batches
from kohort.storage.postgres.logs.pages import LOAD_CHUNK_BYTES, PAGE_BYTES
from log.conftest import NOW, ORDERS, batch, looked_up, records_of

ONE = len(batch(bytes(10_000)))


@pytest.fixture
async def log(open_directory):
    """A log of 3 MB, of which 1 MiB is kept in memory."""
    log = open_directory(cached_bytes=1 << 20).open(ORDERS, LogConfig(segment_bytes=1 << 21))
    for number in range(300):
        log.append(batch(bytes(10_000), timestamp=NOW + number), NOW)
    await log.durable()
    return log


async def test_the_end_is_in_memory(log):
    assert len(log.read(299, 1)) == ONE
    assert not log.is_loading


async def test_a_read_of_what_is_not_in_memory_is_told_when_it_is(log):
    news = asyncio.Event()
    log.on_append(news.set)
    assert bytes(log.read(3, 1)) == b""
    assert log.is_loading
    await news.wait()
    assert batches.read_header(log.read(3, 1)).base_offset == 3


async def test_one_load_brings_what_follows(log):
    log.read(0, 1)
    await log.loaded()
    for offset in range(LOAD_CHUNK_BYTES // ONE - PAGE_BYTES // ONE - 1):
        assert batches.read_header(log.read(offset, 1)).base_offset == offset
    assert not log.is_loading


async def test_every_record_is_read_in_the_end(log):
    offset, found = 0, []
    while offset < log.end_offset:
        data = log.read(offset, 1 << 18)
        if not data:
            await log.loaded()
            continue
        found += [header.base_offset for _, header in batches.iterate(data)]
        offset = found[-1] + 1
    assert found == list(range(300))
    assert [each.offset for each in await asyncio.to_thread(records_of, log)] == found


async def test_a_read_that_does_not_wait_gives_what_is_in_memory(log):
    log.read(0, 1)
    await log.loaded()
    data = log.read(0, 2 << 20)
    assert ONE <= len(data) <= LOAD_CHUNK_BYTES
    assert len(data) % ONE == 0


async def test_readers_of_committed_records_wait_as_well(log):
    assert log.read_committed(0, 1) == (b"", [])
    await log.loaded()
    records, aborted = log.read_committed(0, 1)
    assert (len(records), list(aborted)) == (ONE, [])


async def test_lookups_by_time_load_in_a_thread(log):
    def look():
        return looked_up(log.offset_for_timestamp(NOW + 7))

    assert await asyncio.to_thread(look) == (7, NOW + 7)
    assert await result_in_threads(log.offset_for_timestamp(NOW + 100)) == (100, NOW + 100)


async def result_in_threads(steps):
    """The result of a lookup whose work is done in threads, of which there is some."""
    works, sent = 0, None
    try:
        while True:
            work = steps.send(sent)
            works += work is not None
            sent = None if work is None else await asyncio.to_thread(work)
    except StopIteration as end:
        return end.value if works else None


async def test_rows_that_are_gone_are_told_by_the_next_read(log, sql):
    await sql.execute("delete from batches where base = 2")
    log.read(0, 1)
    await log.loaded()
    with pytest.raises(KafkaError, match="rows are missing"):
        log.read(0, 1)


async def test_the_memory_of_pages_is_bounded(open_directory):
    directory = open_directory(cached_bytes=1 << 20)
    log = directory.open(ORDERS, LogConfig())
    for _ in range(20):
        for _ in range(20):
            log.append(batch(bytes(10_000)), NOW)
        await log.durable()
    in_memory = 0
    for offset in range(log.end_offset):
        in_memory += bool(log.read(offset, 1))
        await asyncio.sleep(0)
        if log.is_loading:
            break
    # The first read misses, so nothing of the beginning is there.
    assert in_memory == 0
