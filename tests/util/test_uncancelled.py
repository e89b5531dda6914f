"""`uncancelled`: work that runs to its end though its caller is cancelled."""

import asyncio
import gc
from typing import Any

import pytest

from kohort.util.uncancelled import uncancelled


@pytest.fixture
async def reported() -> list[dict[str, Any]]:
    """What the event loop would log."""
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    return contexts


async def test_the_caller_gets_the_result_or_the_error() -> None:
    async def work(error: Exception | None) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 7

    assert await uncancelled(work(None), set()) == 7
    with pytest.raises(OSError, match="full"):
        await uncancelled(work(OSError("full")), set())


async def test_work_of_a_cancelled_caller_ends_and_its_error_is_not_reported(
    reported: list[dict[str, Any]],
) -> None:
    running: set[asyncio.Task[Any]] = set()
    released = asyncio.Event()

    async def work() -> None:
        await released.wait()
        raise OSError("full")

    caller = asyncio.ensure_future(uncancelled(work(), running))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert len(running) == 1
    released.set()
    await asyncio.wait(tuple(running))
    await asyncio.sleep(0)
    assert not running
    gc.collect()
    assert not reported


async def test_work_that_is_cancelled_itself_cancels_its_caller() -> None:
    running: set[asyncio.Task[Any]] = set()
    caller = asyncio.ensure_future(uncancelled(asyncio.sleep(3600), running))
    await asyncio.sleep(0)
    for task in running:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
