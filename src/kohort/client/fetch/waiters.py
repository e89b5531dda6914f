"""Tasks that wait for a change; those that stop waiting leave nothing behind."""

import asyncio


class Waiters:
    """Tasks that wait for one kind of change."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        """Wait for the next `wake`."""
        future = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            await future
        finally:
            self._futures.discard(future)

    def wake(self) -> None:
        """End all waits that have begun."""
        for each in self._futures:
            if not each.done():
                each.set_result(None)
