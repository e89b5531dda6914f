"""The event loop of an embedded server: its time advances from timer to timer."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from kohort.testing.embedded.server_time import ServerClock, ServerTimeLoop


def on_server_time(
    test: Callable[[ServerTimeLoop], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """Run a test on a loop of its own."""

    @functools.wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=ServerTimeLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, ServerTimeLoop)
            runner.run(test(loop))

    del run.__wrapped__  # type: ignore[attr-defined]  # pytest would take `loop` for a fixture
    return run


@on_server_time
async def test_timers_fire_in_order_and_each_at_its_time(loop: ServerTimeLoop) -> None:
    loop.freeze()
    start, fired = loop.time(), []
    for seconds in (30, 10, 20, 41):
        loop.call_later(seconds, lambda: fired.append(round(loop.time() - start, 6)))
    await loop.advance(40)
    assert fired == [10, 20, 30]
    assert round(loop.time() - start, 6) == 40


@on_server_time
async def test_timers_that_a_timer_sets_fire_within_the_same_advance(loop: ServerTimeLoop) -> None:
    loop.freeze()
    start, fired = loop.time(), []

    async def repeat() -> None:
        while True:
            await asyncio.sleep(15)
            fired.append(round(loop.time() - start, 6))

    task = asyncio.create_task(repeat())
    await asyncio.sleep(0)
    await loop.advance(45)
    task.cancel()
    assert fired == [15, 30, 45]


@on_server_time
async def test_time_passes_as_fast_as_the_machines_after_an_advance(loop: ServerTimeLoop) -> None:
    start = loop.time()
    await loop.advance(100)
    arrived = loop.time()
    assert arrived >= start + 100
    await asyncio.sleep(0.001)
    assert loop.time() >= arrived + 0.001


@on_server_time
async def test_frozen_time_moves_only_by_short_waits(loop: ServerTimeLoop) -> None:
    loop.freeze()
    start = loop.time()
    long_wait = asyncio.create_task(asyncio.sleep(1))
    await asyncio.sleep(0.004)
    assert round(loop.time() - start, 6) == 0.004
    assert not long_wait.done()
    loop.resume()
    await asyncio.sleep(0.001)
    assert loop.time() > start + 0.004
    long_wait.cancel()


@on_server_time
async def test_time_stands_while_a_thread_works_for_the_loop(loop: ServerTimeLoop) -> None:
    loop.freeze()
    start, ended = loop.time(), threading.Event()
    seen: list[float] = []

    def work() -> None:
        ended.wait(60)

    working = asyncio.ensure_future(asyncio.to_thread(work))
    working.add_done_callback(lambda _: seen.append(loop.time() - start))
    await asyncio.sleep(0)
    threading.Timer(0.02, ended.set).start()
    await loop.advance(10)
    assert seen == [0]
    assert round(loop.time() - start, 6) == 10


@on_server_time
async def test_the_next_timer_alone_fires(loop: ServerTimeLoop) -> None:
    loop.freeze()
    start, fired = loop.time(), []
    loop.call_later(5, fired.append, "first")
    loop.call_later(6, fired.append, "second")
    await loop.advance_to_next_timer(start + 100)
    assert fired == ["first"]
    assert round(loop.time() - start, 6) == 5
    await loop.advance_to_next_timer(start + 5.5)
    assert fired == ["first"]
    assert round(loop.time() - start, 6) == 5.5


@on_server_time
async def test_jumps_add_up_to_the_time_of_the_clock(loop: ServerTimeLoop) -> None:
    loop.freeze()
    clock, jumps = ServerClock(loop), []
    loop.on_jump = jumps.append
    for number in range(1, 100):
        loop.call_later(number * 0.0037, lambda: None)
    now, timestamp = clock.now(), clock.timestamp()
    await loop.advance(1)
    assert sum(jumps) == clock.now() - now
    assert abs(clock.timestamp() - timestamp - sum(jumps)) <= 1
