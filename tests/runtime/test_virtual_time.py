"""The loop of tests in virtual time."""

import asyncio
import threading

import pytest

from runtime.virtual_time import VirtualLoop, virtual_time


@virtual_time
async def test_time_stands_still_while_a_thread_works():
    loop, is_done = asyncio.get_running_loop(), threading.Event()
    timers = []
    loop.call_later(1, timers.append, "due")
    # The loop has turns in between, which would take it to its timers.
    working = asyncio.create_task(asyncio.to_thread(is_done.wait))
    for _ in range(100):
        await asyncio.sleep(0)
    threading.Timer(0.05, is_done.set).start()
    await working
    assert (loop.time(), timers) == (0, [])
    await asyncio.sleep(1)
    assert timers == ["due"]


@pytest.mark.filterwarnings("error")
def test_time_stands_still_while_threads_end():
    is_done = threading.Event()

    async def leave_a_thread():
        asyncio.get_running_loop().run_in_executor(None, is_done.wait).cancel()
        threading.Timer(0.05, is_done.set).start()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(leave_a_thread())
        loop = runner.get_loop()
    assert is_done.is_set()
    assert loop.time() == 0
