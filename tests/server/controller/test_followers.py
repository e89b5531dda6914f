"""How long a change waits for the nodes that follow."""

import asyncio

import pytest

from kohort.server.controller import followers as module
from kohort.server.controller.followers import Followers


async def test_a_change_waits_until_all_know_it() -> None:
    followers = Followers()
    await followers.await_caught_up(10)  # nobody follows
    followers.update("a", 5)
    followers.update("b", 11)
    waiting = asyncio.create_task(followers.await_caught_up(10))
    await asyncio.sleep(0)
    assert not waiting.done()
    followers.update("a", 10)
    await waiting


async def test_a_node_that_goes_is_waited_for_no_more() -> None:
    followers = Followers()
    followers.update("a", 5)
    waiting = asyncio.create_task(followers.await_caught_up(10))
    await asyncio.sleep(0)
    followers.remove("a")
    followers.remove("a")
    await waiting


async def test_a_node_that_hangs_holds_up_a_change_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_WAIT_S", 0.01)
    followers = Followers()
    followers.update("a", 5)
    await followers.await_caught_up(10)
