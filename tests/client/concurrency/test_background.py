"""Work of a blocking caller that is interrupted."""

import asyncio
import signal
import threading

import pytest

from kohort.client.concurrency import background_loop, to_its_end


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupt_waits_for_work_that_ends_by_itself() -> None:
    """As a commit, which a cancellation does not stop."""
    ended = []

    async def commit(cancelled: asyncio.Event) -> None:
        interrupt()
        await cancelled.wait()
        ended.append("committed")

    async def work() -> None:
        cancelled = asyncio.Event()
        await to_its_end(asyncio.create_task(commit(cancelled)), cancelled.set)

    with pytest.raises(KeyboardInterrupt):
        background_loop().run_to_its_end(work())
    assert ended == ["committed"]


def test_a_second_interrupt_does_not_wait() -> None:
    released = asyncio.Event()

    async def work() -> None:
        interrupt()
        await to_its_end(asyncio.create_task(released.wait()), interrupt)

    with pytest.raises(KeyboardInterrupt):
        background_loop().run_to_its_end(work())
    background_loop().loop.call_soon_threadsafe(released.set)


def test_results_and_errors_are_those_of_the_work() -> None:
    async def divide(by: int) -> float:
        return 6 / by

    assert background_loop().run_to_its_end(divide(2)) == 3
    with pytest.raises(ZeroDivisionError):
        background_loop().run_to_its_end(divide(0))
