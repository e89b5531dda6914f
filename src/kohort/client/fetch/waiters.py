"""Tasks that wait for a change; a cancelled wait is removed."""

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
        """Wake all waiting tasks."""
        for future in self._futures:
            if not future.done():
                future.set_result(None)
