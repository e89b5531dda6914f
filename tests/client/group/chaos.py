"""A group in a world where everything goes wrong at random, and a witness of who processed what.

`Witness` raises as soon as

- a record is processed twice within one generation (as long as its member had the partition without
  a loss between);
- two members work on one partition at a time: one of them had lost it, or it was not drained yet.
"""

import asyncio
from collections import defaultdict

from client.group.world import FakeCluster
from kohort.client.group_errors import CommitError, GenerationEndedError
from kohort.client.membership.events import End

QUICK = {
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 15_000,
    "heartbeat_interval_ms": 1_000,
    "partition_watch_interval_ms": 5_000,
}


class Witness:
    def __init__(self, world, *, ids_repeat=False):
        """`ids_repeat`: a group that was empty can begin anew, with generation ids that were."""
        self.world = world
        self.ids_repeat = ids_repeat
        self.workers = {}
        self.processed = defaultdict(int)
        """(partition, offset) -> how often, over all generations."""
        self.in_generation = {}
        """(generation, partition, offset) -> (member, how often it had lost the partition before).
        """
        self.losses = defaultdict(int)
        self.ends = defaultdict(int)

    def begin(self, partition, member):
        other = self.workers.get(partition)
        assert other is None, (
            f"{self.world.now}: {member} begins {partition}, which {other} still works on"
        )
        self.workers[partition] = member

    def process(self, generation, partition, offset, member):
        assert self.workers.get(partition) == member, (
            f"{member} works on {partition} without having begun"
        )
        self.processed[partition, offset] += 1
        if self.ids_repeat:
            return
        by = (member, self.losses[member, partition])
        before = self.in_generation.setdefault((generation.id, partition, offset), by)
        where = f"{partition} at {offset} in generation {generation.id}"
        assert before[0] == member, f"{where}: by {before[0]} and by {member}"
        assert before is by or before != by, f"{where}: twice"
        self.in_generation[generation.id, partition, offset] = by

    def end(self, partition, member, generation):
        assert self.workers.pop(partition) == member
        self.ends[generation.end] += 1
        self.losses[member, partition] += generation.end is End.LOST


class Chaos:
    def __init__(self, world, *, protocols=(), **options):
        """Each member draws one of `protocols`, if there are any."""
        self.world = world
        self.random = world.random
        self.protocols = protocols
        self.options = QUICK | options
        self.witness = Witness(world, ids_repeat=bool(protocols))
        self.members = {}
        self.started = 0
        self.slow_until = 0

    # --- a member ---

    def start(self):
        name = f"m{self.started}"
        self.started += 1
        drawn = {"protocol": self.random.choice(self.protocols)} if self.protocols else {}
        group = self.world.member(**self.options | drawn)
        task = self.world.loop.create_task(self._member(name, group))
        self.members[name] = (group, task)

    async def _member(self, name, group):
        async with group:
            async for generation in group:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(self._work, partition, name)

    async def _work(self, generation, partition, name):
        self.witness.begin(partition, name)
        try:
            async for batch in generation.records(partition):
                for offset in range(batch.first, batch.next_offset):
                    self.witness.process(generation, partition, offset, name)
                    await asyncio.sleep(self._pause())
                await generation.commit({partition: batch.next_offset})
        except GenerationEndedError:
            assert generation.end is End.LOST
        except CommitError as error:
            # Refused for this partition alone: what was processed will be processed again.
            raise AssertionError(f"{name} could not commit: {error}") from error
        finally:
            self.witness.end(partition, name, generation)

    def _pause(self):
        if self.world.now < self.slow_until and self.random.random() < 0.1:
            return self.random.uniform(1, 20)
        return self.random.uniform(0, 0.05)

    # --- what goes wrong ---

    def happen(self):
        """Something."""
        happenings = [
            self._start_one,
            self._stop_one,
            self._kill_one,
            self._cut_one_off,
            self._restart,
            self._slow,
        ]
        weights = [6, 3, 2, 2, 1, 1]
        self.random.choices(happenings, weights)[0]()

    def _pick(self):
        running = [name for name, (_, task) in self.members.items() if not task.done()]
        return self.random.choice(running) if running else None

    def _start_one(self):
        if sum(not task.done() for _, task in self.members.values()) < 6:
            self.start()

    def _stop_one(self):
        if name := self._pick():
            self.members[name][0].stop("asked to")

    def _kill_one(self):
        if name := self._pick():
            group, task = self.members[name]
            group.sim.is_dead = True
            task.cancel()

    def _cut_one_off(self):
        if name := self._pick():
            cluster: FakeCluster = self.members[name][0].sim
            cluster.reachable.clear()
            self.world.loop.call_later(self.random.uniform(0.5, 30), cluster.reachable.set)

    def _restart(self):
        self.world.is_up = False
        self.world.coordinator.restart()

        def back():
            self.world.coordinator.restart()
            self.world.is_up = True

        self.world.loop.call_later(self.random.uniform(0, 15), back)

    def _slow(self):
        self.slow_until = self.world.now + 30_000

    # --- the whole ---

    async def run(self, rebalances, happenings=0):
        """Until the coordinator has counted so many, and so much went wrong; then everything heals,
        and the rest is processed.
        """
        self.start()
        happened = 0
        while self.world.coordinator.rebalances < rebalances or happened < happenings:
            happened += 1
            self.world.produce(self.random.randrange(10))
            await asyncio.sleep(self.random.uniform(0.2, 8))
            self._fail_early()
            self.happen()
        await self._heal()
        for group, task in self.members.values():
            if not task.done():
                group.stop()
        await asyncio.gather(*(task for _, task in self.members.values()), return_exceptions=True)
        self._fail_early()
        assert self.witness.workers == {}

    async def _heal(self):
        self.slow_until = 0
        for group, _ in self.members.values():
            group.sim.reachable.set()
        self.world.break_probability = 0
        self._start_one()
        self.start()
        for _ in range(600):
            await asyncio.sleep(1)
            self._fail_early()
            if self.is_done():
                return
        raise AssertionError(
            f"not everything was processed: {self.world.committed()} of {self.world.topics}"
        )

    def is_done(self):
        committed = self.world.committed()
        return all(
            committed.get((topic, at), 0) == end
            for topic, ends in self.world.topics.items()
            for at, end in enumerate(ends)
        )

    def _fail_early(self):
        for _, task in self.members.values():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def assert_all_processed(self):
        for topic, ends in self.world.topics.items():
            for at, end in enumerate(ends):
                missing = [
                    offset
                    for offset in range(end)
                    if not self.witness.processed[(topic, at), offset]
                ]
                assert not missing, f"{topic}-{at}: {missing} were never processed"
