"""What a task is handed of its partition's records."""

import asyncio
from types import SimpleNamespace

from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.streaming import stream
from kohort.types import TopicPartition

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
