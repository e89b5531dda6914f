"""Tests in the simulated world: `@simulated()` runs one there, `App` is an application with one
member in it.
"""

import inspect
from functools import partial

import waiting
from client.group.world import run

FOREVER = 3_600


def simulated(seed=0, **world_options):
    """The test's first argument is the world; others are pytest's."""

    def decorate(test):
        def in_world(**arguments):
            return run(lambda world: test(world, **arguments), seed, **world_options)

        _world, *others = inspect.signature(test).parameters.values()
        in_world.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        in_world.__name__, in_world.__doc__, in_world.__module__ = (
            test.__name__,
            test.__doc__,
            test.__module__,
        )
        if hasattr(test, "pytestmark"):
            in_world.pytestmark = test.pytestmark  # type: ignore[attr-defined]
        return in_world

    return decorate


until = partial(waiting.until, seconds=300, every_s=0.05)
"""Wait in virtual time, whose seconds are free."""


class App:
    """One member with its application. `work(generation, partition)` runs for each partition,
    default `consume`.
    """

    def __init__(self, world, work=None, body=None, **options):
        self.world = world
        self.group = world.member(**options)
        self.generations = []
        self.consumed = []
        """(partition, first, next offset, generation id)"""
        self.ended = []
        """(partition, how its work ended)"""
        self._work = work or self.consume
        self._body = body
        self.task = world.loop.create_task(self._run())

    async def _run(self):
        async with self.group:
            async for generation in self.group:
                self.generations.append(generation)
                async with generation:
                    if self._body is not None:
                        await self._body(generation)
                    for partition in generation.assignment:
                        generation.start(self._work, partition)

    async def consume(self, generation, partition):
        try:
            async for batch in generation.records(partition):
                self.consumed.append((partition, batch.first, batch.next_offset, generation.id))
                await generation.commit({partition: batch.next_offset})
        finally:
            self.ended.append((partition, generation.end))

    @property
    def generation(self):
        return self.generations[-1]

    @property
    def assignment(self):
        """Of the generation that goes on; () between two."""
        live = self.generations and self.generation.end is None
        return self.generation.assignment if live else ()

    async def assigned(self, count):
        await until(lambda: len(self.assignment) == count)
        return self.assignment

    async def stop(self):
        self.group.stop()
        await self.task

    def kill(self):
        self.group.sim.is_dead = True
        self.task.cancel()

    def sent(self, api):
        """Its requests of that API: (time, fields)."""
        return [(at, fields) for at, name, fields in self.group.sim.requests if name == api]
