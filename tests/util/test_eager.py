"""A coroutine runs at once up to where it first waits, and needs a task only for the rest."""

import asyncio
from typing import NoReturn

import pytest

from cycles import errors_in, uncollected
from kohort.util.eager import in_task, start


async def test_a_coroutine_that_never_waits_needs_no_task() -> None:
    done = []

    async def work() -> None:
        done.append(asyncio.current_task())

    inside = asyncio.current_task()
    assert start(work()) is None
    assert done == [inside]


async def test_an_error_before_the_first_wait_is_raised_at_once() -> None:
    async def work() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # has no message
        start(work())


async def test_the_rest_waits_for_the_same_future() -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    steps = []

    async def work() -> None:
        steps.append("begun")
        steps.append(await future)
        await asyncio.sleep(0)
        steps.append("done")

    rest = start(work())
    assert rest is not None
    assert steps == ["begun"]
    future.set_result("waited")
    await rest
    assert steps == ["begun", "waited", "done"]


async def test_an_error_of_the_awaited_future_reaches_the_coroutine() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    caught = []

    async def work() -> None:
        try:
            await future
        except ValueError as error:
            caught.append(str(error))

    rest = start(work())
    assert rest is not None
    future.set_exception(ValueError("no"))
    await rest
    assert caught == ["no"]


async def test_a_cancelled_task_cancels_what_the_coroutine_waits_for() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ended = []

    async def work() -> None:
        try:
            await future
        finally:
            ended.append(True)

    rest = start(work())
    assert rest is not None
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert future.cancelled()
    assert ended == [True]


async def test_a_task_that_is_cancelled_before_it_begins_ends_the_coroutine() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    rest = start(work())
    assert rest is not None
    task = asyncio.ensure_future(rest)
    task.cancel()
    await asyncio.wait([task])
    del rest, task
    assert ended == [True]


async def test_in_task_waits_for_the_task_of_the_rest() -> None:
    tasks = []

    async def work() -> None:
        await in_task()
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
        tasks.append(asyncio.current_task())

    # Outside of any task, as the callbacks of a connection run.
    begun: asyncio.Future[asyncio.Task[None]] = asyncio.get_running_loop().create_future()

    def begin() -> None:
        rest = start(work())
        assert rest is not None
        begun.set_result(asyncio.ensure_future(rest))

    asyncio.get_running_loop().call_soon(begin)
    task = await begun
    await task
    assert tasks == [task]


async def test_errors_leave_nothing_for_the_garbage_collector() -> None:
    async def fail(future: "asyncio.Future[None]") -> NoReturn:
        await future
        raise AssertionError

    async def failing() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        rest = start(fail(future))
        assert rest is not None
        future.set_exception(ValueError("no"))
        try:
            await rest
        except ValueError:
            pass

    with uncollected() as garbage:
        await failing()
    assert errors_in(garbage) == []
