"""Random histories of transactions on one server, with crashes and a disk that refuses.

Three folds take part, each on a log in files: the transactional ids, the groups with their pending
offsets, and two partitions of records with last stable offset and index of aborted transactions.
Whatever happened, once the disk takes everything and every timeout is over:

- of each transaction all is visible, records and offset, or nothing, as its producer was told;
- no transaction is open or ends, and nothing holds back readers of records or offsets;
- live state == replay(log) == replay(compact(log)).
"""

import asyncio
import contextlib
import os
import shutil
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.requests import OffsetToCommit, TxnOffsetCommit
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.log.durability import MAX_RETRY_BACKOFF_S
from kohort.log.local import LocalDirectory
from kohort.protocol.aborted_transactions import committed_batches
from kohort.protocol.batches import TRANSACTIONAL, Record, build, decode_records, iterate
from kohort.runtime.groups import Groups
from kohort.runtime.transactions import TransactionCoordinator
from kohort.server.cluster.transaction_markers import PartitionMarkers
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import TransactionState
from kohort.transactions.requests import EndTransaction, InitProducerId, TransactionalProducer
from kohort.types import TopicPartition
from log.refusing_disk import CHANGES, Disk
from runtime.virtual_time import LoopClock, VirtualLoop

DAY_MS = 86_400_000
TIMEOUT_MS = 30_000
REOPEN_S = 5.0
IDS = TopicPartition("__transaction_state", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
ORDERS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1_500,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.0,
)
RECORDS = LogConfig(segment_bytes=600, index_interval_bytes=200)
RETRIABLE = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)

TURNS = (1, 1, 2, 2, 3, 4, 6, 9)
"""Turns of the event loop between EndTxn and a crash."""

names = st.sampled_from(("t", "u"))
steps = st.one_of(
    st.tuples(st.just("write"), names, st.integers(0, 1)),
    st.tuples(st.just("commit offset"), names),
    st.tuples(st.just("end"), names, st.booleans(), st.booleans()),
    st.tuples(st.just("end"), names, st.just(True), st.booleans()),
    st.tuples(st.sampled_from(("fence", "write of a zombie")), names),
    st.tuples(st.just("end and crash"), names, st.booleans(), st.sampled_from(TURNS)),
    st.tuples(st.just("crash"), st.booleans()),
    st.tuples(st.just("refuse"), st.integers(1, 12), st.sampled_from((1, 3, 1_000))),
    st.tuples(st.sampled_from(("heal", "clean"))),
    st.tuples(st.just("wait"), st.sampled_from((0.001, 1, 10, 40))),
    st.tuples(st.just("set clock"), st.sampled_from((-DAY_MS, 0, DAY_MS))),
)


class Loop(VirtualLoop):
    """Functions for other threads run at once: no time passes meanwhile."""

    def run_in_executor(self, _executor, function, *arguments):
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class Server:
    """Both coordinators on the logs of a directory."""

    def __init__(self, path, clock, new_producer_id, durability):
        self.clock = clock
        self.directory = LocalDirectory(path, durability=durability)
        waits_for_disk = durability == "fsync"
        self.groups = Groups(
            [self.directory.open(OFFSETS, COMPACTED)],
            GroupCoordinatorConfig(),
            clock,
            waits_for_disk=waits_for_disk,
        )
        self.transactions = TransactionCoordinator(
            [self.directory.open(IDS, COMPACTED)],
            TransactionCoordinatorConfig(),
            clock,
            new_producer_id=new_producer_id,
            marker_writer=PartitionMarkers(self, self.groups, clock, waits_for_disk=waits_for_disk),
            waits_for_disk=waits_for_disk,
        )
        self.directory.on_reopened += [self.groups.log_reopened, self.transactions.log_reopened]
        self.directory.confirm_start()

    def log(self, *partition):
        """A partition of records, as `Topics.log`."""
        return self.directory.open(TopicPartition(*partition), RECORDS)

    async def start(self):
        for coordinator in (self.groups, self.transactions):
            coordinator.start()
            await coordinator.loaded()
        self._reopening = asyncio.ensure_future(self._reopen())

    async def _reopen(self):
        while True:
            await asyncio.sleep(REOPEN_S)
            with contextlib.suppress(OSError):
                await self.directory.reopen()

    async def close(self):
        self._reopening.cancel()
        await self.transactions.close()
        await self.groups.close()
        self.directory.close()

    # --- requests, as the handlers serve them ---

    async def init(self, name):
        request = InitProducerId(on_response=None, transactional_id=name, timeout_ms=TIMEOUT_MS)
        return await self.transactions.ask(request)

    async def write(self, name, producer, partition, value):
        """Raises KafkaError, OSError."""
        await self._add(name, producer, partition)
        log, now = self.log(*partition), self.clock.timestamp()
        guard = None
        if log.ongoing_transaction(*producer) is None:
            guard = log.begin_verification(*producer, -1, now, tv2=False)
        batch = build(
            [Record(None, value, (), now)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            attributes=TRANSACTIONAL,
        )
        log.append(batch, self.clock.timestamp(), verified=guard)
        await log.durable()

    async def commit_offset(self, name, producer, number):
        """Raises KafkaError, OSError."""
        await self._add(name, producer, OFFSETS)
        guard = self.groups.begin_verification("g", *producer)
        response = asyncio.get_running_loop().create_future()
        self.groups.submit(
            TxnOffsetCommit(
                on_response=response.set_result,
                version=6,
                group="g",
                producer_id=producer[0],
                producer_epoch=producer[1],
                generation=-1,
                member_id="",
                instance_id=None,
                offsets=(OffsetToCommit("orders", number, number),),
                verified=guard,
            )
        )
        ((_, error),) = (await response).results
        if error:
            raise KafkaError(error)

    async def _add(self, name, producer, partition):
        """Add a partition, also if the log knows the producer: its last end may be unmarked."""
        added = {partition.topic: frozenset({partition.partition})}
        error = await self.transactions.add_partitions_after_markers(
            TransactionalProducer(name, *producer), added, 0
        )
        if error:
            raise KafkaError(error)

    async def end(self, name, producer, commit, bumps_epoch):
        return await self.transactions.ask(
            EndTransaction(
                on_response=None,
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                commit=commit,
                bumps_epoch=bumps_epoch,
            )
        )

    # --- what is there ---

    def visible(self, log):
        """What readers of committed records get."""
        offset, found = log.start_offset, []
        while offset < log.high_watermark:
            data, aborted = log.read_committed(offset, 1 << 20)
            listed = [(each.producer_id, each.first_offset) for each in aborted]
            for position, _ in committed_batches(bytes(data), listed):
                found += [record.value for record in decode_records(bytes(data), position)]
            offset = [header for _, header in iterate(bytes(data))][-1].last_offset + 1
        return found

    def offsets(self):
        """Partitions with a committed offset."""
        group = self.groups.group("g")
        return set() if group is None else {each[1] for each in dict(group.offsets)}

    def state(self):
        """All that the logs have to tell."""
        (ids,) = self.transactions.shards()
        return [self.visible(self.log(*each)) for each in ORDERS], dict(ids), self.offsets()


class Transaction:
    """One transaction, as its producer knows it."""

    def __init__(self, number):
        self.number = number
        self.records = [[], []]
        """Values that were acknowledged, by partition."""
        self.has_offset = False
        self.is_whole = True
        """Whether nothing was refused: only then it is committed."""
        self.wanted = None
        """Whether it is committed, once its end was asked for."""
        self.outcome = None
        """Whether it was committed, as far as its producer was told."""

    def check(self, values, offsets):
        """Of its effects there are all or none, as its producer was told."""
        seen = [[each for each in some if each.startswith(b"%d/" % self.number)] for some in values]
        is_visible = seen != [[], []] or self.number in offsets
        expected = self.outcome if self.outcome is not None or self.wanted else False
        if expected is None:
            expected = is_visible
        assert is_visible <= expected
        assert seen == (self.records if expected else [[], []])
        assert (self.number in offsets) == (expected and self.has_offset)


class Client:
    """A producer with its transactional id."""

    def __init__(self):
        self.producer = None
        self.former = None
        """The producer before the last one: a zombie."""
        self.transaction = None


class History:
    """A server, its clients and its disk."""

    def __init__(self, path, disk, durability):
        self.path, self.disk, self.durability = Path(path), disk, durability
        self.runs = 0
        self.clock = LoopClock()
        self.producer_ids = count(1_000)
        self.values = count()
        self.clients = {"t": Client(), "u": Client()}
        self.transactions = []

    async def begin(self):
        path = self.path / str(self.runs)
        self.server = Server(path, self.clock, self.producer_ids.__next__, self.durability)
        await self.server.start()

    async def do(self, kind, *what):
        await getattr(self, "_" + kind.replace(" ", "_"))(*what)

    async def _write(self, name, partition):
        if await self._ready(name):
            client, known = self.clients[name], self._transaction(name)
            value = b"%d/%d" % (known.number, next(self.values))
            with self._noting(known):
                await self.server.write(name, client.producer, ORDERS[partition], value)
                known.records[partition].append(value)

    async def _commit_offset(self, name):
        if await self._ready(name):
            client, known = self.clients[name], self._transaction(name)
            with self._noting(known):
                await self.server.commit_offset(name, client.producer, known.number)
                known.has_offset = True

    async def _ready(self, name):
        """Whether the client has a producer, and no transaction that is to end."""
        client = self.clients[name]
        if client.producer is None:
            await self._fence(name)
        known = client.transaction
        return client.producer is not None and (known is None or known.wanted is None)

    def _transaction(self, name):
        client = self.clients[name]
        if client.transaction is None:
            client.transaction = Transaction(len(self.transactions))
            self.transactions.append(client.transaction)
        return client.transaction

    @contextlib.contextmanager
    def _noting(self, transaction):
        try:
            yield
        except (KafkaError, OSError):
            transaction.is_whole = False

    async def _end(self, name, commit, bumps_epoch):
        client = self.clients[name]
        known = client.transaction
        if known is None or client.producer is None:
            return
        if known.wanted is None:
            known.wanted = commit and known.is_whole
        response = await self.server.end(name, client.producer, known.wanted, bumps_epoch)
        if not response.error:
            known.outcome = known.wanted
            client.transaction = None
            if bumps_epoch:
                client.producer = response[1:]
        elif response.error not in RETRIABLE:
            client.producer = client.transaction = None

    async def _fence(self, name):
        """Another producer takes the id over."""
        client = self.clients[name]
        former, client.producer = client.producer or client.former, None
        client.transaction = None
        for _ in range(3):
            response = await self.server.init(name)
            if not response.error:
                client.former, client.producer = former, response[1:]
                return
            await asyncio.sleep(0.1)
        client.former = former

    async def _write_of_a_zombie(self, name):
        client = self.clients[name]
        if client.former is not None and client.producer is not None:
            with pytest.raises((KafkaError, OSError)):
                await self.server.write(name, client.former, ORDERS[0], b"zombie")
            assert (await self.server.end(name, client.former, True, False)).error

    async def _end_and_crash(self, name, bumps_epoch, turns):
        ending = asyncio.ensure_future(self._end(name, True, bumps_epoch))
        for _ in range(turns):
            await asyncio.sleep(0)
        ending.cancel()
        await self._crash(False)

    async def _crash(self, of_machine, *lost):
        """Start again from what the server wrote, without the directories of lost partitions.

        After a crash of the machine every log is checked.
        """
        former, self.runs = self.server, self.runs + 1
        left = self.path / str(self.runs)
        # Threads remove segments that compaction has replaced.
        gone = shutil.ignore_patterns("*.deleted")
        shutil.copytree(self.path / str(self.runs - 1), left, ignore=gone)
        self.disk.refused = ()
        for each in lost:
            shutil.rmtree(left / str(each))
        if of_machine:
            (left / ".lock").write_text("1\nan earlier start of the machine")
        await self.begin()
        with contextlib.suppress(OSError):  # what the disk refused is not on it
            await former.close()

    async def _refuse(self, after, lasting):
        self.disk.refused = range(self.disk.count + after, self.disk.count + after + lasting)

    async def _heal(self):
        self.disk.refused = ()

    async def _clean(self):
        await self.server.directory.retain(self.clock.timestamp())
        await self.server.directory.compact(self.clock.timestamp())

    async def _wait(self, seconds):
        await asyncio.sleep(seconds)

    async def _set_clock(self, ahead_ms):
        self.clock.ahead_ms = ahead_ms

    async def check(self):
        await self._heal()
        await asyncio.sleep(2 * (TIMEOUT_MS / 1_000 + MAX_RETRY_BACKOFF_S))
        server = self.server
        assert {"open": 0, "ending": 0}.items() <= server.transactions.statistics().items()
        for each in ORDERS:
            log = server.log(*each)
            assert log.last_stable_offset == log.end_offset
        assert not any(group.offsets.pending for group in server.groups.groups())
        state = server.state()
        for each in self.transactions:
            each.check(state[0], state[2])
        assert all(b"zombie" not in values for values in state[0])
        await self._crash(False)
        assert self.server.state() == state
        await self._clean()
        await self._crash(True)
        assert self.server.state() == state


@contextlib.asynccontextmanager
async def beginning(durability="os"):
    with TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)  # a killed server loses nothing, and faster
        changes = CHANGES | {"fsync"} if durability == "fsync" else CHANGES
        history = History(path, Disk(patched, changes), durability)
        await history.begin()
        yield history
        await history.server.close()


def run(test):
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(test)


@pytest.mark.parametrize("durability", ["os", "fsync"])
@settings(max_examples=examples(25))
@given(history=st.lists(steps, min_size=15, max_size=50))
def test_each_transaction_is_stored_whole_or_not_at_all(durability, history):
    async def play():
        async with beginning(durability) as it:
            for step in history:
                await it.do(*step)
            await it.check()

    run(play())


WRITES = [("write", "t", 0), ("write", "t", 1), ("commit offset", "t")]
COMMIT, ABORT = [("end", "t", commit, True) for commit in (True, False)]


@pytest.mark.parametrize("durability", ["os", "fsync"])
@pytest.mark.parametrize(("lasting", "step"), [(1, 2), (1_000, 5)])
def test_a_disk_that_refuses_an_operation(durability, lasting, step):
    async def play(after):
        """Returns the number of operations."""
        async with beginning(durability) as it:
            await it.do("refuse", after, lasting)
            first = it.disk.count
            for each in (*WRITES, COMMIT, *WRITES, ABORT):
                await it.do(*each)
                await asyncio.sleep(0.5)
            operations = it.disk.count - first
            await asyncio.sleep(20)
            await it.check()
            return operations

    for after in range(1, run(play(1_000)) + 1, step):
        run(play(after))


@pytest.mark.parametrize("lost", [ORDERS[0], OFFSETS])
def test_a_partition_whose_directory_is_lost_holds_up_nothing(lost):
    async def play():
        async with beginning() as it:
            for step in WRITES:
                await it.do(*step)
            await it.do("crash", False, lost)
            await it.do(*COMMIT)
            await asyncio.sleep(1)
            values, ids, offsets = it.server.state()
            assert [len(each) for each in values] == ([0, 1] if lost in ORDERS else [1, 1])
            assert offsets == ({0} if lost in ORDERS else set())
            assert {each.state for each in ids.values()} == {TransactionState.COMPLETE_COMMIT}

    run(play())
