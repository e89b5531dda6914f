"""What a failed call of a client took is free when its error is, without the collector.

Each method of each client is called while the broker refuses it, and while no broker answers. An
error that is kept by a frame of its own traceback would keep what the call had: records, for
instance.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import pytest

from client.test_bounds import CALLS, LIMITS, Proxy, opened, proxy
from cycles import errors_in, frames_in, uncollected
from kohort.client import ClientConfig
from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.server.config.config import Config

__all__ = ["proxy"]
CALLED: Final = 3
"""Times for each method; a cycle for each call is told from one for the client."""
REFUSING: Final = {
    "listeners": "127.0.0.1:0",
    "storage": "memory",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@pytest.fixture
async def refusing() -> AsyncIterator[str]:
    """The address of a broker that refuses whatever has to be allowed."""
    async with Broker(Config(REFUSING)) as broker:
        broker.controller.topics.create("orders", 1)
        broker.controller.topics.create("other", 1)
        yield str(broker.address)


async def call_each(kind: str, config: ClientConfig) -> None:
    for call in CALLS[kind].values():
        client = opened(kind, config)
        with suppress(KohortError):
            await client.__aenter__()
        for _ in range(CALLED):
            with suppress(KohortError):
                await call(client)
        with suppress(KohortError, ExceptionGroup):
            await client.__aexit__(None, None, None)
        del client
        await asyncio.sleep(1)


@pytest.mark.parametrize("kind", CALLS)
async def test_refused_calls_leave_no_cycles(refusing: str, kind: str) -> None:
    config = ClientConfig(bootstrap=refusing, **LIMITS)
    await call_each(kind, config)
    with uncollected() as garbage:
        await call_each(kind, config)
    assert (errors_in(garbage), frames_in(garbage)) == ([], [])


@pytest.mark.parametrize("kind", CALLS)
async def test_unanswered_calls_leave_no_cycles(proxy: Proxy, kind: str) -> None:
    limits: dict[str, Any] = LIMITS | {"request_timeout_ms": 500, "default_api_timeout_ms": 700}
    config = ClientConfig(bootstrap=proxy.address, **limits)
    proxy.stall()
    await call_each(kind, config)
    with uncollected() as garbage:
        await call_each(kind, config)
    assert (errors_in(garbage), frames_in(garbage)) == ([], [])
