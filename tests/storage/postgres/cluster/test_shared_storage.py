"""What the nodes of a cluster share, in PostgreSQL."""

import asyncio
import contextlib

import asyncpg
import pytest

from kohort.cluster import FencedError, HistoryLostError, UnknownOutcomeError
from kohort.errors import KohortError
from kohort.protocol import batches
from kohort.protocol.batch_format import START
from kohort.storage.postgres.cluster.shared_storage import PostgresStorage
from kohort.storage.postgres.fence import LEASE, LOCK, METADATA, OPERATOR, STATE, Fence
from kohort.storage.postgres.link import STATEMENT_TIMEOUT_S
from kohort.types import TopicPartition
from log.conftest import batch
from storage.postgres.conftest import waiting

METADATA_LOG = TopicPartition("__cluster_metadata", 0)
SLOW_COMMITS = """
create function wait() returns trigger language plpgsql as $$ begin
    begin perform pg_advisory_xact_lock(7);
    exception when query_canceled then perform pg_advisory_xact_lock(7); end;
    return null;
end $$;
create constraint trigger waits after insert on batches deferrable initially deferred
    for each row execute function wait()
"""
"""A commit takes until lock 7 is free, whoever still waits for it."""
LOCKED_BY = (
    "select pid from pg_locks l join pg_stat_activity a using (pid) "
    "where l.locktype = 'advisory' and a.application_name = $1 "
    "and l.objid::bigint in (select hashtext(current_schema() || ' ' || n.node::text)::bigint "
    "& 4294967295 from nodes n)"
)
"""The process of the database that has a node's lock for a connection of that name."""
ENDED = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where application_name like 'kohort node 1 cluster%'"
)
LEASES_OVER = f"update nodes set lease_until = now() where lane = {LEASE}"


@pytest.fixture
async def node(database):
    """The storage as nodes see it."""
    made = []

    def node(number, further=""):
        storage = PostgresStorage(database + further, Fence(number), METADATA_LOG)
        made.append(storage)
        return storage

    yield node
    for each in made:
        await each.close()


@pytest.fixture
async def pair(node):
    """Two nodes with sessions."""
    first, second = node(1), node(2)
    await first.claim()
    await second.claim()
    return first, second


def at(offset, *values):
    """A batch as it is appended at an offset."""
    sent = batch(*values)
    return START.pack(offset, len(sent) - 12, 0) + sent[16:]


async def known(use, storage):
    """What it gives once it has a connection again."""
    while True:
        with contextlib.suppress(UnknownOutcomeError):
            return await use(storage)


class TestSessions:
    async def test_session_numbers_of_a_node_grow(self, node):
        storage = node(1)
        assert storage.session == -1
        first = await storage.claim()
        assert await storage.claim() > first
        assert storage.session > first

    async def test_a_claim_that_waits_for_writes_holds_up_no_other_node(
        self, pair, node, sql, database
    ):
        writing = await asyncpg.connect(database)
        async with writing.transaction():
            await writing.execute("select from nodes where node = 1 and lane = $1 for share", STATE)
            claiming = asyncio.create_task(pair[0].claim())
            await waiting(sql)
            async with asyncio.timeout(STATEMENT_TIMEOUT_S / 2):
                await pair[1].renew()
                await node(3).claim()
            assert not claiming.done()
        await claiming
        await writing.close()

    async def test_a_living_process_keeps_its_id(self, node):
        await node(1).claim()
        other = node(1)
        with pytest.raises(KohortError, match="another process serves as node 1"):
            await other.claim()
        assert other.session == -1

    async def test_one_whose_lease_is_over_does_not(self, node, sql):
        first, second = node(1), node(1)
        await first.claim()
        await sql.execute(LEASES_OVER)
        await second.claim()
        with pytest.raises(FencedError):
            await first.renew()
        await second.renew()

    async def test_a_process_that_is_gone_does_not(self, node):
        first, second = node(1), node(1)
        await first.claim()
        await first.close()
        assert await second.claim() > first.session

    async def test_a_release_is_seen_at_once(self, pair):
        first, second = pair
        await first.release()
        seen = await second.observe()
        assert seen.is_gone(1, first.session)
        assert not seen.is_gone(2, second.session)
        with pytest.raises(FencedError):
            await first.append(0, at(0, b"a"), {})
        await first.release()
        await first.claim()
        assert await first.append(0, at(0, b"a"), {})


class TestObserving:
    async def test_an_observation_has_the_lease_and_lock_of_each_node(self, pair, sql):
        first, second = pair
        seen = await second.observe()
        assert {number: each.session for number, each in seen.nodes.items()} == {
            1: first.session,
            2: second.session,
        }
        assert all(each.holds_lock for each in seen.nodes.values())
        assert all(each.lease_until > seen.now for each in seen.nodes.values())
        await first.close()
        while (await second.observe()).nodes[1].holds_lock:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await sql.execute(LEASES_OVER)
        assert (await second.observe()).is_gone(2, second.session)
        await second.renew()
        assert not (await second.observe()).is_gone(2, second.session)

    async def test_a_lock_that_a_process_of_0_2_has_is_taken_later(self, pair, sql):
        first, second = pair
        lock = "select pg_try_advisory_lock($1, hashtext(current_schema() || ' 1'))"
        while not await sql.fetchval(lock, LOCK):  # the node takes it again at once, too
            await sql.execute(
                "select pg_terminate_backend(pid) from pg_locks where classid::bigint = $1 and "
                "objid::bigint = hashtext(current_schema() || ' 1')::bigint & 4294967295",
                LOCK,
            )
        await known(lambda node: node.renew(), first)
        await sql.fetch("select pg_advisory_unlock_all()")
        async with asyncio.timeout(60):
            while not (await second.observe()).nodes[1].holds_lock:
                await known(lambda node: node.renew(), first)

    async def test_a_lock_whose_connection_was_lost_is_taken_again_at_once(self, pair, sql, caplog):
        name = "kohort node 1 cluster lock"
        former = await sql.fetchval(LOCKED_BY, name)
        await sql.execute("select pg_terminate_backend($1)", former)
        async with asyncio.timeout(60):
            while await sql.fetchval(LOCKED_BY, name) in (None, former):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert [line.message for line in caplog.records] == [
            "lost the connection that holds the lock of this node"
        ]


class TestTheMetadataLog:
    async def test_an_append_at_another_offset_than_the_end_fails(self, pair):
        first, second = pair
        assert not (await second.read(0)).data
        assert await first.append(0, at(0, b"a", b"b"), {})
        assert not await second.append(0, at(0, b"c"), {})
        assert not await second.append(1, at(1, b"c"), {})
        assert await second.append(2, at(2, b"c"), {})
        found = (await first.read(0)).data
        assert [header.base_offset for _, header in batches.iterate(found)] == [0, 2]
        assert batches.read_header((await first.read(1)).data).base_offset == 0
        assert batches.read_header((await first.read(2)).data).base_offset == 2
        assert not (await first.read(3)).data

    async def test_one_of_many_gets_an_offset(self, pair):
        for offset in range(20):
            won = await asyncio.gather(
                *(each.append(offset, at(offset, b"a"), {}) for each in (*pair, *pair))
            )
            assert won.count(True) == 1

    async def test_reads_are_bounded(self, pair):
        first, _ = pair
        for offset in range(5):
            await first.append(offset, at(offset, bytes(400_000)), {})
        offset, reads = 0, 0
        while found := (await first.read(offset)).data:
            *_, (_, last) = batches.iterate(found)
            offset, reads = last.last_offset + 1, reads + 1
        assert (offset, reads) == (5, 3)

    async def test_a_read_from_within_a_metadata_snapshot_returns_all_of_it(self, pair):
        first, second = pair
        for offset in range(4):
            await first.append(offset, at(offset, b"a"), {})
        await first.compact(3, [at(1, b"b"), at(2, b"c")])
        await second.compact(2, [])  # another node has done more
        for offset in (0, 1, 2):
            data, end = await second.read(offset)
            bases = [header.base_offset for _, header in batches.iterate(data)]
            assert (bases, end) == ([1, 2], 3)
        data, end = await second.read(3)
        assert (batches.read_header(data).base_offset, end) == (3, 0)
        assert await second.append(4, at(4, b"d"), {})

    async def test_leader_epochs_go_on_from_those_of_a_server_alone(self, pair, sql):
        first, second = pair
        await first.append(0, at(0, b"a"), {})
        await sql.execute("update batches set data = overlay(data placing '\\x00000002' from 13)")
        await second.read(0)
        await second.append(1, at(1, b"b"), {})
        await second.append(2, at(2, b"c"), {})
        await second.compact(2, [at(1, b"d")])
        assert await sql.fetch("select base, epoch from batches order by base") == [(1, 2), (2, 2)]
        found = batches.iterate((await first.read(0)).data + (await first.read(2)).data)
        assert [header.partition_leader_epoch for _, header in found] == [2, 2]

    async def test_the_end_of_a_log_that_is_a_snapshot_is_known(self, pair):
        first, second = pair
        await first.append(0, at(0, b"a"), {})
        await first.compact(1, [])
        assert not await second.append(0, at(0, b"b"), {})
        assert await second.append(1, at(1, b"b"), {})

    async def test_a_fenced_node_does_not_compact_the_metadata_log(self, pair):
        first, second = pair
        await first.append(0, at(0, b"a"), {})
        await second.append(1, at(1, b"b"), {1: first.session})
        with pytest.raises(FencedError):
            await first.compact(1, [])
        assert batches.read_header((await second.read(0)).data).base_offset == 0

    async def test_an_append_ends_the_sessions_of_others(self, pair, sql):
        first, second = pair
        session = first.session
        assert await second.append(0, at(0, b"a"), {1: session})
        for refused in (first.renew(), first.append(1, at(1, b"b"), {})):
            with pytest.raises(FencedError):
                await refused
        rows = await sql.fetch("select lane, session from nodes where node = 1")
        assert {lane for lane, of in rows if of == session + 1} >= {LEASE, METADATA, STATE}
        await first.claim()
        assert await second.append(1, at(1, b"c"), {1: session})
        await first.renew()

    async def test_a_process_that_hangs_in_a_transaction_is_fenced(self, pair):
        first, second = pair
        await first.append(0, at(0, b"a"), {})
        fence, is_held = first.fence, asyncio.Event()
        hold = fence.lock_session

        async def hang(*held):
            await hold(*held)
            is_held.set()
            await asyncio.Event().wait()

        fence.lock_session = hang
        compacting = asyncio.ensure_future(first.compact(1, [at(0, b"a")]))
        await is_held.wait()
        async with asyncio.timeout(STATEMENT_TIMEOUT_S - 5):
            assert await second.append(1, at(1, b"b"), {1: fence.claimed})
        compacting.cancel()

    async def test_an_append_that_is_refused_ends_no_session(self, pair):
        first, second = pair
        await first.append(0, at(0, b"a"), {})
        assert not await second.append(0, at(0, b"b"), {1: first.session})
        await first.renew()

    async def test_an_append_is_told(self, pair):
        first, second = pair
        await second.wait_beyond(0)  # at any time: it listens by now
        waiting = asyncio.ensure_future(second.wait_beyond(0))
        await first.append(0, at(0, b"a"), {})
        await waiting
        assert (await second.read(0)).data
        await second.wait_beyond(-1)

    async def test_a_lost_connection_is_an_unknown_outcome(self, pair, sql):
        first, _ = pair
        await first.append(0, at(0, b"a"), {})
        blocking = sql.transaction()
        await blocking.start()
        await sql.execute("lock table batches")
        appending = asyncio.ensure_future(first.append(1, at(1, b"b"), {}))
        waits = "select count(*) from pg_locks where not granted"
        while not await sql.fetchval(waits):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await sql.execute("select pg_terminate_backend(pid) from pg_locks where not granted")
        with pytest.raises(UnknownOutcomeError):
            await appending
        await blocking.rollback()
        assert await first.append(1, at(1, b"b"), {})

    async def test_a_call_may_be_cancelled(self, pair, sql):
        first, _ = pair
        blocking = sql.transaction()
        await blocking.start()
        await sql.execute("lock table batches")
        appending = asyncio.ensure_future(first.append(0, at(0, b"a"), {}))
        await asyncio.sleep(0.05)
        appending.cancel()
        await asyncio.gather(appending, return_exceptions=True)
        await blocking.rollback()
        while not await first.append(0, at(0, b"a"), {}):
            if (await first.read(0)).data:
                break

    async def test_a_read_after_a_cancelled_append_waits_for_its_outcome(self, pair, sql):
        first, _ = pair
        await first.read(0)
        await sql.execute(SLOW_COMMITS)
        await sql.execute("select pg_advisory_lock(7)")
        appending = asyncio.ensure_future(first.append(0, at(0, b"a"), {}))
        waits = "select count(*) from pg_locks where not granted and locktype = $1"
        while not await sql.fetchval(waits, "advisory"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        appending.cancel()
        await asyncio.gather(appending, return_exceptions=True)
        reading = asyncio.ensure_future(first.read(0))
        while not (reading.done() or await sql.fetchval(waits, "transactionid")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await sql.execute("select pg_advisory_unlock(7)")
        found = (await reading).data
        assert [header.base_offset for _, header in batches.iterate(found)] == [0]
        assert await first.append(1, at(1, b"b"), {})

    async def test_a_batch_that_was_compacted_away_is_not_lost(self, pair):
        first, second = pair
        await first.append(0, at(0, b"a"), {})
        await second.append(1, at(1, b"b"), {})
        await first.compact(2, [at(1, b"c")])
        second.fence.timeline = "of a former primary"
        await second.claim()

    @pytest.mark.parametrize(
        "use",
        [
            lambda node: node.claim(),
            lambda node: node.renew(),
            lambda node: node.observe(),
            lambda node: node.read(2),
            lambda node: node.append(2, at(2, b"d"), {}),
        ],
        ids=["claim", "renew", "observe", "read", "append"],
    )
    async def test_a_read_batch_that_was_replaced_in_the_database_is_lost_history(
        self, pair, sql, use
    ):
        first, second = pair
        await first.append(0, at(0, b"a"), {})
        await first.append(1, at(1, b"lost"), {})
        await first.read(0)
        await sql.execute("delete from batches where base = 1")
        await second.append(1, at(1, b"b", b"c"), {})
        await sql.execute(ENDED)
        with pytest.raises(HistoryLostError, match="before offset 2"):
            await known(use, first)

    async def test_tables_of_a_cluster_that_is_known_are_not_made_anew(self, pair, sql):
        first, _ = pair
        await first.append(0, at(0, b"a"), {})
        schema = await sql.fetchval("select current_schema()")
        await sql.execute(f"drop schema {schema} cascade; create schema {schema}")
        with pytest.raises(HistoryLostError, match="before offset 1"):
            await known(lambda node: node.claim(), first)
        assert not await sql.fetch("select from pg_class where relnamespace = $1::regnamespace",
                                   schema)  # fmt: skip

    async def test_a_schema_may_have_a_long_name(self, sql, database):
        name = "s" * 63
        await sql.execute(f"create schema {name}")
        storage = PostgresStorage(f"{database.rpartition('=')[0]}={name}", Fence(1), METADATA_LOG)
        try:
            await storage.claim()
            await storage.wait_beyond(0)
            assert await storage.append(0, at(0, b"a"), {})
            await storage.wait_beyond(0)
        finally:
            await storage.close()
            await sql.execute(f"drop schema {name} cascade")


async def test_reading_cluster_storage_needs_no_right_to_write(node, pair):
    first, _ = pair
    assert await first.append(0, at(0, b"a"), {})
    operator = node(OPERATOR, "&default_transaction_read_only=on")
    assert (await operator.read(0)).data == at(0, b"a")
    assert {*(await operator.observe()).nodes} == {1, 2}
