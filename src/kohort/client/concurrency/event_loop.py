"""A client belongs to the event loop that first used it, where its connections and tasks are."""

import asyncio

from kohort.errors import KohortError


def own_loop(expected: asyncio.AbstractEventLoop | None, user: str) -> asyncio.AbstractEventLoop:
    """The running loop, which must be `expected` if there is one. Raises KohortError.

    Call it before creating coroutines: after the error they would never be awaited.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        raise KohortError(
            f"the {user} needs a running asyncio event loop: call it within "
            "asyncio.run(…). Under trio, and in threads, use kohort.client.sync"
        ) from None
    if expected is not None and expected is not running:
        raise KohortError(
            f"the {user} is used from another event loop than before; make one for each loop, or "
            "call it by asyncio.run_coroutine_threadsafe(…, loop)"
        )
    return running
