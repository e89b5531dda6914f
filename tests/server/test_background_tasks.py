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


async def test_cleaning_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    cleaned = asyncio.Event()
    calls = 0

    async def clean(_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            cleaned.set()
        raise OSError("no space left")

    logs: Any = SimpleNamespace(clean=clean, reopen=loaded)
    topics: Any = SimpleNamespace(all=tuple)
    groups: Any = SimpleNamespace(loaded=loaded, groups=tuple)
    warm: list[str] = []
    tasks = BackgroundTasks(
        Config({"log.cleaner.backoff.ms": 0}),
        SystemClock(),
        logs,
        topics,
        groups,
        warm_ups=[lambda: warm.append("up")],
    )
    tasks.start()
    async with asyncio.timeout(10):
        await cleaned.wait()
    await tasks.close()
    await tasks.close()
    assert warm == ["up"]
    assert "cleaning failed" in caplog.text
