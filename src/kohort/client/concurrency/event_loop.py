"""A client belongs to the event loop that first used it, where its connections and tasks are."""

import asyncio

from kohort.errors import KohortError


def own_loop(own: asyncio.AbstractEventLoop | None, what: str) -> asyncio.AbstractEventLoop:
    """The running loop, which must be `own` if there is one. Raises KohortError.

    Called before coroutines are created, which nobody would await after the error.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        raise KohortError(
            f"the {what} needs asyncio's event loop, and none runs here: call it within "
            "asyncio.run(…). Under trio, and in threads, use kohort.client.sync"
        ) from None
    if own is not None and own is not running:
        raise KohortError(
            f"the {what} is used from another event loop than before; make one for each loop, or "
            "call it by asyncio.run_coroutine_threadsafe(…, loop)"
        )
    return running
