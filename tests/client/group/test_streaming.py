"""What a task is handed of its partition's records."""

import asyncio
from random import Random
from types import SimpleNamespace

import anyio
import pytest

from kohort.client.fetch.batch import Batch
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.streaming import RecordStream
from kohort.client.membership.events import End
from kohort.client.serialization import deserializers
from kohort.errors import KohortError
from kohort.protocol.batches import Record, build
from kohort.types import Instant, TopicPartition

TP = TopicPartition("orders", 0)


class OneByOne:
    """A fetcher whose first batch comes when it is told."""

    def __init__(self):
        self.taken = 0
        self.is_there = asyncio.Event()

    async def next(self, tp, *, max_wait_ms):
        assert max_wait_ms == 0, "who is cancelled while it waits must not have taken anything"
        if not self.is_there.is_set():
            return None
        self.taken += 1
        return SimpleNamespace(next_offset=self.taken, leader_epoch=0)

    async def wait(self, tp, *, max_wait_ms):
        await self.is_there.wait()


async def test_a_wait_that_is_cancelled_takes_no_batch_along():
    fetcher = OneByOne()
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    waiting = asyncio.ensure_future(
        anext(RecordStream(fetcher, owned, lambda *_: None, lambda _: None))
    )
    await asyncio.sleep(0.01)
    fetcher.is_there.set()
    for _ in range(3):
        await asyncio.sleep(0)
        if waiting.cancel():
            break
    await asyncio.gather(waiting, return_exceptions=True)
    batch = await anext(RecordStream(fetcher, owned, lambda *_: None, lambda _: None))
    assert batch.next_offset == 1


# --- deserializers


class Positioned:
    """A fetcher that has the same batch of two records for each position below 2."""

    def __init__(self):
        self.position = 0

    async def next(self, tp, *, max_wait_ms):
        if self.position == 2:
            return None
        first, self.position = self.position, 2
        records = build([Record(None, b"%d" % n, (), Instant(0)) for n in range(2)])
        return Batch(tp, records, first, 2)

    async def wait(self, tp, *, max_wait_ms):
        await asyncio.Event().wait()

    def seek(self, tp, offset):
        self.position = offset


class Hanging:
    """A deserializer that never returns."""

    def __init__(self):
        self.called = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, data):
        self.called.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def reading(fetcher, owned, deserializer):
    found = RecordStream(
        fetcher, owned, lambda *_: None, lambda _: None, deserializers(None, deserializer)
    )
    return asyncio.ensure_future(anext(found, None))


async def test_a_revocation_does_not_wait_for_a_deserializer():
    fetcher, hanging = Positioned(), Hanging()
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    waiting = reading(fetcher, owned, hanging)
    await hanging.called.wait()
    assert owned.busy_since is not None, "max_poll_interval_ms counts it"
    owned.ending.begin(End.REVOKED, "a rebalance")
    assert await waiting is None
    await hanging.cancelled.wait()
    assert owned.last_offset == -1, "nothing was handed out that could be committed"
    assert owned.busy_since is None


class Slow:
    """A deserializer that waits until it may return."""

    def __init__(self):
        self.called = asyncio.Event()
        self.may_return = asyncio.Event()

    async def __call__(self, data):
        self.called.set()
        await self.may_return.wait()
        return data


async def test_a_deserializer_goes_on_when_the_wait_for_it_is_cancelled():
    fetcher, slow = Positioned(), Slow()
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    waiting = reading(fetcher, owned, slow)
    await slow.called.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert fetcher.position - owned.undelivered == 0, "the batch was not handed out"
    slow.may_return.set()
    batch = await reading(fetcher, owned, slow)
    assert [record.value for record in batch] == [b"0", b"1"]
    assert owned.undelivered == 0


async def test_seeking_while_a_batch_is_deserialized_is_obeyed():
    fetcher = Positioned()
    owned = OwnedPartition(TP, lambda _: None, lambda: None)

    def seek_once(data):
        if owned.sought == 0:
            owned.sought += 1
            fetcher.seek(TP, 1)
        return data

    batch = await reading(fetcher, owned, seek_once)
    assert [record.offset for record in batch] == [1]


# --- waits that end before a batch arrives


class Source:
    """A fetcher of a partition to which records are appended, in batches of one to three."""

    def __init__(self, random):
        self.random = random
        self.position = self.end = 0
        self.changed = asyncio.Event()

    def append(self, count):
        self.end += count
        self.changed.set()

    async def next(self, tp, *, max_wait_ms):
        first, self.position = (
            self.position,
            min(self.position + self.random.randint(1, 3), self.end),
        )
        if first == self.position:
            return None
        records = [Record(None, b"%d" % n, (), Instant(0)) for n in range(first, self.position)]
        return Batch(tp, build(records, base_offset=first), first, self.position)

    async def wait(self, tp, *, max_wait_ms):
        while self.position == self.end:
            self.changed.clear()
            await self.changed.wait()

    def seek(self, tp, offset):
        self.position = offset


async def yield_often(data):
    for _ in range(int(data) % 4):
        await asyncio.sleep(0)
    return int(data)


async def cancelled_after(turns, wait):
    """What `wait` gives, unless it is cancelled after so many turns of the loop."""
    task = asyncio.ensure_future(wait)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


@pytest.mark.parametrize("is_deserialized", [False, True])
@pytest.mark.parametrize("has_one_iterator", [False, True])
@pytest.mark.parametrize("seed", range(20))
async def test_waits_cancelled_in_any_turn_lose_and_double_no_record(
    seed, has_one_iterator, is_deserialized
):
    random = Random(seed)
    source, read = Source(random), []
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    deserializer = deserializers(None, yield_often) if is_deserialized else None

    def opened():
        return RecordStream(source, owned, lambda *_: None, lambda _: None, deserializer)

    stream = opened()
    for _ in range(1_000):
        source.append(random.choice([0, 0, 1, 5]))
        if not has_one_iterator:
            stream = opened()
        batch = await cancelled_after(random.randint(0, 12), anext(stream))
        position = source.position - owned.undelivered
        read += [] if batch is None else [record.offset for record in batch]
        assert read == list(range(position)), "what was read, and nothing else, is behind us"
    assert len(read) > 100
    source.append(1)
    async with asyncio.timeout(60):
        while len(read) < source.end:
            read += [record.offset for record in await anext(stream)]
    assert read == list(range(source.end))


async def by_wait_for(wait):
    try:
        return await asyncio.wait_for(wait, 0.001)
    except TimeoutError:
        return "nothing in time"


async def by_timeout(wait):
    try:
        async with asyncio.timeout(0.001):
            return await wait
    except TimeoutError:
        return "nothing in time"


async def by_anyio(wait):
    with anyio.move_on_after(0.001):
        return await wait
    return "nothing in time"


LIMITED = {"wait_for": by_wait_for, "timeout": by_timeout, "anyio": by_anyio}


@pytest.mark.parametrize("time_limit", LIMITED)
async def test_a_time_limit_does_not_end_the_stream(time_limit):
    source = Source(Random(0))
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    stream = RecordStream(source, owned, lambda *_: None, lambda _: None)
    for _ in range(3):
        assert await LIMITED[time_limit](anext(stream)) == "nothing in time"
    source.append(1)
    batch = await anext(stream)
    assert [record.offset for record in batch] == [0]
    owned.ending.begin(End.REVOKED, "a rebalance")
    assert [each async for each in stream] == []


async def test_max_wait_ms_yields_none_and_leaves_the_loop_to_others():
    source, others = Source(Random(0)), []
    owned = OwnedPartition(TP, lambda _: None, lambda: None)

    async def other():
        others.append(await asyncio.sleep(0))
        source.append(1)

    running = asyncio.ensure_future(other())
    found = []
    async for batch in RecordStream(source, owned, lambda *_: None, lambda _: None, max_wait_ms=0):
        found.append(batch)
        if batch is not None:
            break
    await running
    assert found[0] is None
    assert [record.offset for record in found[-1]] == [0]
    with pytest.raises(ValueError, match="max_wait_ms is -1"):
        RecordStream(source, owned, lambda *_: None, lambda _: None, max_wait_ms=-1)


async def test_a_partition_whose_loop_was_left_by_break_is_not_busy():
    source = Source(Random(0))
    source.append(9)
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    async for _ in RecordStream(source, owned, lambda *_: None, lambda _: None):
        assert owned.busy_since is not None
        break
    assert owned.busy_since is None
    assert owned.reader == (None, None)


async def test_one_iterator_has_one_reader_at_a_time():
    source = Source(Random(0))
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    stream = RecordStream(source, owned, lambda *_: None, lambda _: None)
    waiting = asyncio.ensure_future(anext(stream), loop=asyncio.get_running_loop())
    await asyncio.sleep(0)
    for each in (stream, RecordStream(source, owned, lambda *_: None, lambda _: None)):
        with pytest.raises(KohortError, match="is read by the task"):
            await anext(each)
    source.append(1)
    assert (await waiting).next_offset == 1
