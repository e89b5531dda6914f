"""Shards that wait to be loaded."""

import asyncio

from kohort.runtime.loading_order import LoadingOrder
from waiting import turns


class Shards:
    """Shards that load when they are let."""

    def __init__(self):
        self.order = LoadingOrder()
        self.begun = []
        self.tasks = {}
        self.may_end = asyncio.Semaphore(0)

    async def add(self, *names):
        for name in names:
            self.tasks[name] = asyncio.create_task(self.load(name))
        await turns(5)

    async def load(self, name):
        async with self.order.turn(name):
            self.begun.append(name)
            await self.may_end.acquire()

    async def end(self, count):
        for _ in range(count):
            self.may_end.release()
            await turns(5)


async def test_shards_load_one_after_the_other_those_that_are_asked_for_first():
    shards = Shards()
    await shards.add("a", "b", "c", "d")
    assert shards.begun == ["a"]
    shards.order.ask("d")
    shards.order.ask("a")
    shards.order.ask("unknown")
    await shards.end(4)
    assert shards.begun == ["a", "d", "b", "c"]
    await shards.add("e")
    assert shards.begun[-1] == "e"


async def test_a_shard_that_is_given_up_holds_up_nobody():
    shards = Shards()
    await shards.add("a", "b", "c", "d", "e")
    shards.tasks["b"].cancel()
    shards.tasks["a"].cancel()
    await turns(5)
    assert shards.begun == ["a", "c"]
    shards.may_end.release()
    await asyncio.sleep(0)
    shards.tasks["d"].cancel()  # in the turn in which it is let
    await turns(5)
    assert "e" in shards.begun
    await shards.end(2)
    await shards.add("f")
    assert shards.begun[-1] == "f"
