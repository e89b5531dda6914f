"""Processes with one node id: the one that is alive keeps it."""

import asyncio
import contextlib
from random import Random

import asyncpg
import pytest

from kohort.cluster import DuplicateNodeIdError, FencedError, UnknownOutcomeError
from kohort.storage.postgres import fence
from kohort.storage.postgres.cluster import node_lock
from kohort.storage.postgres.cluster.shared_storage import PostgresStorage
from kohort.storage.postgres.errors import DatabaseError
from kohort.storage.postgres.fence import LEASE, LOCK, Fence
from kohort.types import TopicPartition

NODE = 1
METADATA_LOG = TopicPartition("__cluster_metadata", 0)
LEASE_OVER = f"update nodes set lease_until = now() where lane = {LEASE} and node = {NODE}"
HOLDERS = f"""
select pid from pg_locks where locktype = 'advisory' and granted and classid::bigint = {LOCK}
and objid::bigint = (hashtext(current_schema() || ' {NODE}')::bigint & 4294967295)
"""
LOCKS, LEASES = "cluster lock", "cluster lease"
"""The connections that have the lock."""


class Process(PostgresStorage):
    """A process of the node, which the test ends and whose connections it cuts."""

    def __init__(self, database: str, number: int) -> None:
        super().__init__(database, Fence(NODE), METADATA_LOG)
        self.number = number
        for link in (self._locking, self._leasing, self._appending, self._reading):
            link._link._name += f" of {number}"

    async def cut(self, sql, connection=""):
        """End its connections of this name, as a network does; return when they are gone."""
        name = f"kohort node {NODE} {connection}% of {self.number}"
        found = "select pid from pg_stat_activity where application_name like $1"
        ended = [row[0] for row in await sql.fetch(found, name)]
        await sql.execute("select pg_terminate_backend(pid) from unnest($1::int[]) pid", ended)
        gone = "select not exists (select from pg_stat_activity where pid = any($1))"
        while not await sql.fetchval(gone, ended):  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def kill(self, sql):
        """End as by SIGKILL."""
        await self.close()
        await self.cut(sql)

    async def holds_lock(self, sql):
        names = await sql.fetch(
            f"select application_name from pg_stat_activity where pid in ({HOLDERS})"
        )
        return {name.split(" cluster ")[1].split()[0] for (name,) in names
                if name.endswith(f" of {self.number}")}  # fmt: skip

    async def until_known(self, use):
        while True:
            with contextlib.suppress(UnknownOutcomeError):
                return await use()


@pytest.fixture
async def process(database, monkeypatch):
    """Makes processes; leases end by `LEASE_OVER`."""
    monkeypatch.setattr(fence, "LEASE_MS", 600_000)
    made = []

    def process():
        made.append(Process(database, len(made)))
        return made[-1]

    yield process
    for each in made:
        await each.close()


@pytest.fixture
async def replaced(process, sql):
    """A process that was suspended for longer than its lease, and its successor."""
    suspended, successor = process(), process()
    await suspended.claim()
    await sql.execute(LEASE_OVER)
    await successor.claim()
    return suspended, successor


async def is_refused(process):
    with pytest.raises(DuplicateNodeIdError, match=f"another process serves as node {NODE}"):
        await process.until_known(process.claim)
    return True


class TestAProcessThatWasSuspended:
    async def test_a_suspended_process_does_not_take_its_id_back(self, replaced):
        suspended, successor = replaced
        for _ in range(3):
            with pytest.raises(FencedError):
                await suspended.renew()
            assert await is_refused(suspended)
            await successor.renew()

    async def test_the_successor_has_the_lock_beside_it_and_then_alone(self, replaced, sql):
        suspended, successor = replaced
        assert await suspended.holds_lock(sql) == {"lock", "lease"}
        assert await successor.holds_lock(sql) == {"lock", "lease"}
        assert await is_refused(suspended)
        assert await suspended.holds_lock(sql) == set()
        assert await successor.holds_lock(sql) == {"lock", "lease"}

    async def test_a_suspended_process_takes_the_id_of_a_killed_successor(self, replaced, sql):
        suspended, successor = replaced
        assert await is_refused(suspended)
        await successor.kill(sql)
        await suspended.claim()
        await suspended.renew()
        assert await suspended.holds_lock(sql) == {"lock", "lease"}

    async def test_a_suspended_process_takes_the_id_of_a_successor_that_hangs(self, replaced, sql):
        suspended, successor = replaced
        assert await is_refused(suspended)
        await sql.execute(LEASE_OVER)
        await suspended.claim()
        assert await is_refused(successor)

    async def test_a_suspended_process_takes_the_id_of_an_ended_successor(self, replaced):
        suspended, successor = replaced
        await successor.release()
        await suspended.claim()

    @pytest.mark.parametrize("end", [Process.cut, Process.kill])
    async def test_a_third_process_does_not_come_in_when_it_ends(self, replaced, process, sql, end):
        suspended, successor = replaced
        assert await is_refused(process())
        await end(suspended, sql)
        assert await is_refused(process())
        await successor.renew()

    async def test_one_of_several_successors_gets_the_id(self, process, sql):
        suspended = process()
        await suspended.claim()
        for _ in range(5):
            await sql.execute(LEASE_OVER)
            successors = [process() for _ in range(3)]
            claimed = await asyncio.gather(
                *(each.claim() for each in successors), return_exceptions=True
            )
            assert sorted(isinstance(each, DuplicateNodeIdError) for each in claimed) == [
                False, True, True,
            ]  # fmt: skip
            (won,) = (each for each in successors if each.session >= 0)
            await won.renew()


class TestAProcessThatLostConnections:
    @pytest.mark.parametrize("lost", [LOCKS, LEASES])
    async def test_one_of_the_connections_with_the_lock_is_enough(self, process, sql, lost):
        first, other = process(), process()
        await first.claim()
        for _ in range(10):
            await first.cut(sql, lost)
            assert await is_refused(other)
            async with asyncio.timeout(60):
                while await first.holds_lock(sql) != {"lock", "lease"}:  # once it notices the loss
                    await first.until_known(first.renew)

    async def test_the_id_of_a_process_without_connections_is_free(self, process, sql):
        """As after SIGKILL: nothing is waited for."""
        first, other = process(), process()
        await first.claim()
        await first.kill(sql)
        await other.claim()

    async def test_a_restart_of_the_database_does_not_free_the_id(self, process, sql, monkeypatch):
        first, other = process(), process()
        await first.claim()
        monkeypatch.setattr(node_lock, "RESTART_GRACE_S", 1e6)
        await first.kill(sql)
        for _ in range(2):
            with pytest.raises(DatabaseError, match="may be alive until its lease is over"):
                await other.claim()
            assert await other.holds_lock(sql) == set()
        await sql.execute(LEASE_OVER)
        await other.claim()
        assert await other.claim() == other.session  # its own lease is not over


async def test_a_process_of_version_0_2_keeps_its_id(process, sql, database):
    """It has the lock alone."""
    earlier, later = process(), process()
    await earlier.claim()
    await earlier.kill(sql)
    lock = await asyncpg.connect(database)
    alone = "select pg_try_advisory_lock($1, hashtext(current_schema() || $2))"
    assert await lock.fetchval(alone, LOCK, f" {NODE}")
    assert await is_refused(later)
    await sql.execute(LEASE_OVER)
    await later.claim()
    await lock.close()


class Machine:
    """Three processes, to which things happen; a process gets the id if and only if it is free."""

    def __init__(self, process, sql, seed):
        self.process = process
        self.sql = sql
        self.random = Random(seed)
        self.processes = [process() for _ in range(3)]
        self.owner = None
        """The process that has the id, until it ends."""
        self.is_over = False
        """Whether the owner's lease is over: it is suspended."""
        self.claims = 0

    async def claim(self, each):
        """It starts, or tries again after the end of its session."""
        if self.owner is None or self.is_over:
            await each.until_known(each.claim)
            self.owner, self.is_over = each, False
            self.claims += 1
        elif each is not self.owner:
            assert await is_refused(each)

    async def cut(self, each):
        await each.cut(self.sql, self.random.choice((LOCKS, LEASES)))

    async def suspend(self, _):
        await self.sql.execute(LEASE_OVER)
        self.is_over = True

    async def resume(self, _):
        self.is_over = False  # it renews its lease, if it still has the id

    async def kill(self, each):
        await each.kill(self.sql)
        self.processes[self.processes.index(each)] = self.process()
        self.owner = None if each is self.owner else self.owner

    async def release(self, each):
        if each is self.owner:
            await each.release()
            self.owner = None

    async def step(self):
        happens = (self.claim, self.claim, self.cut, self.suspend, self.resume, self.kill)
        await self.random.choice((*happens, self.release))(self.random.choice(self.processes))
        if self.owner is not None and not self.is_over:
            await self.owner.until_known(self.owner.renew)
        for each in self.processes:
            if each is not self.owner and each.session >= 0:
                with pytest.raises(FencedError):
                    await each.until_known(each.renew)


@pytest.mark.parametrize("seed", range(3))
async def test_a_process_that_is_alive_keeps_its_id_whatever_happens(process, sql, seed):
    machine = Machine(process, sql, seed)
    await machine.claim(machine.processes[0])
    for _ in range(200):
        await machine.step()
    assert machine.claims > 10
