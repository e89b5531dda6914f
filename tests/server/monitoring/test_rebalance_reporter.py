"""The log lines of rebalances are bounded: some of each group, then their number."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from kohort.coordinator.journal import Cause, Rebalance
from kohort.server.logging.formats import TextFormatter
from kohort.server.monitoring.rebalance_reporter import LINES, WINDOW_S, RebalanceReporter
from kohort.types import Timestamp
from runtime.virtual_time import virtual_time

JOINED = Rebalance(
    group="orders",
    generation=1,
    causes=(Cause("joined", "a-1"),),
    outcome="stable",
    started=Timestamp(0),
    joined=Timestamp(0),
    ended=Timestamp(0),
    members=("a-1",),
)


def observe(rebalances: RebalanceReporter, count: int, group: str = "orders") -> None:
    for number in range(count):
        each = replace(JOINED, group=group, generation=number + 1)
        if number % 3 == 2:
            each = replace(each, causes=(Cause("left", "a-1"),), outcome="empty")
        rebalances.observe(each)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Gives the lines since it was called last."""
    caplog.set_level(logging.INFO, logger="kohort.groups")

    def read() -> list[str]:
        found = [TextFormatter().format(each).partition(": ")[2] for each in caplog.records]
        caplog.clear()
        return found

    return read


@virtual_time
async def test_a_group_that_rebalances_all_the_time_has_some_lines_in_a_minute(lines) -> None:
    rebalances = RebalanceReporter()
    observe(rebalances, 60)
    assert [line.partition(" outcome")[0] for line in lines()] == [
        f"rebalance group=orders generation={number + 1}" for number in range(LINES)
    ]
    await asyncio.sleep(WINDOW_S)
    assert lines() == [
        "more rebalances group=orders rebalances=55 generation=60 "
        'outcomes=["stable x36", "empty x19"] causes=["joined x36", "left x19"]'
    ]
    observe(rebalances, 1)
    assert len(lines()) == 1
    await asyncio.sleep(2 * WINDOW_S)
    assert lines() == []
    rebalances.close()


@virtual_time
async def test_groups_do_not_take_lines_of_each_other(lines) -> None:
    rebalances = RebalanceReporter()
    observe(rebalances, LINES)
    observe(rebalances, LINES, "others")
    assert len(lines()) == 2 * LINES
    await asyncio.sleep(WINDOW_S)
    assert lines() == []


@virtual_time
async def test_unlogged_rebalances_are_logged_at_the_end(lines) -> None:
    rebalances = RebalanceReporter()
    observe(rebalances, LINES + 1)
    lines()
    rebalances.close()
    assert [line.partition(" outcomes")[0] for line in lines()] == [
        f"more rebalances group=orders rebalances=1 generation={LINES + 1}"
    ]
    await asyncio.sleep(WINDOW_S)
    assert lines() == []


@virtual_time
async def test_all_are_counted(lines) -> None:
    rebalances = RebalanceReporter()
    observe(rebalances, 60)
    assert rebalances.causes.total() == 60
    rebalances.close()
