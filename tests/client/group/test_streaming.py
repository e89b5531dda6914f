"""What a task is handed of its partition's records."""

import asyncio
from types import SimpleNamespace

from kohort.client.fetch.batch import Batch
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.streaming import stream
from kohort.client.membership.events import End
from kohort.client.serialization import deserializers
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
    waiting = asyncio.ensure_future(anext(stream(fetcher, owned, lambda *_: None, lambda _: None)))
    await asyncio.sleep(0.01)
    fetcher.is_there.set()
    for _ in range(3):
        await asyncio.sleep(0)
        if waiting.cancel():
            break
    await asyncio.gather(waiting, return_exceptions=True)
    batch = await anext(stream(fetcher, owned, lambda *_: None, lambda _: None))
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
    found = stream(
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


async def test_cancelling_a_deserializer_loses_no_batch():
    fetcher, hanging = Positioned(), Hanging()
    owned = OwnedPartition(TP, lambda _: None, lambda: None)
    waiting = reading(fetcher, owned, hanging)
    await hanging.called.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    batch = await reading(fetcher, owned, bytes.decode)
    assert [record.value for record in batch] == ["0", "1"]


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
