"""Background tasks beside the requests: they run, and one that fails runs again."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.runtime.clock import SystemClock
from kohort.server.background_tasks import BackgroundTasks
from kohort.server.config import Config


async def loaded() -> None:
    """The groups, of which there are none."""


def background(**logs: Any) -> BackgroundTasks:
    """The tasks of a server with such logs and no topics or groups."""
    made: Any = SimpleNamespace(**{"retain": nothing, "compact": nothing, "reopen": loaded, **logs})
    topics: Any = SimpleNamespace(all=tuple)
    groups: Any = SimpleNamespace(loaded=loaded, groups=tuple)
    config = Config({"log.cleaner.backoff.ms": 0})
    return BackgroundTasks(config, SystemClock(), made, topics, groups, warm_ups=())


async def nothing(_: object) -> None:
    """Clean logs of which none needs it."""


@pytest.mark.parametrize(("work", "name"), [("retain", "retention"), ("compact", "compaction")])
async def test_cleaning_that_fails_is_tried_again(
    work: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned = asyncio.Event()
    calls = 0

    async def clean(_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            cleaned.set()
        raise OSError("no space left")

    tasks = background(**{work: clean})
    tasks.start()
    async with asyncio.timeout(60):
        await cleaned.wait()
    await tasks.close()
    await tasks.close()
    assert f"{name} failed" in caplog.text


async def test_retention_goes_on_beside_a_long_compaction() -> None:
    compacting, passes = asyncio.Event(), 0
    retained = asyncio.Event()

    async def compact(_: object) -> None:
        compacting.set()
        await asyncio.Event().wait()

    async def retain(_: object) -> None:
        nonlocal passes
        passes += compacting.is_set()
        if passes == 2:
            retained.set()

    tasks = background(compact=compact, retain=retain)
    tasks.start()
    async with asyncio.timeout(10):
        await retained.wait()
    await tasks.close()


async def test_warm_ups_are_called() -> None:
    warm = asyncio.Event()
    tasks = background()
    tasks._warm_ups = [warm.set]
    tasks.start()
    async with asyncio.timeout(10):
        await warm.wait()
    await tasks.close()
