"""`waiting`: what a condition gives, and what the error says."""

import asyncio

import pytest

from waiting import until, wait_until


async def test_until_returns_the_first_true_value() -> None:
    values = iter([None, 0, "there"])
    assert await until(lambda: next(values)) == "there"


async def test_until_takes_a_coroutine_function() -> None:
    values = iter([False, True])

    async def condition() -> bool:
        return next(values)

    assert await until(condition)


async def test_an_error_of_until_has_the_source_of_the_condition() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: .*3 == 4"):
        await until(lambda: 3 == 4, seconds=0)


async def test_an_error_of_until_describes_a_condition_without_source() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: .*is_set"):
        await until(asyncio.Event().is_set, seconds=0)


def test_an_error_of_wait_until_describes_the_state_of_that_moment() -> None:
    state: list[int] = []
    with pytest.raises(AssertionError, match=r"not within 0 s: seen \[1\]"):
        wait_until(lambda: state.append(1), lambda: f"seen {state}", seconds=0)


def test_wait_until_returns_the_first_true_value() -> None:
    values = iter(["", "there"])
    assert wait_until(lambda: next(values), every_s=0) == "there"
