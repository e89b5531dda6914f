"""What a node reads of a shard before it serves it: all that it can, and nothing that is wrong."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import ErrorCode
from kohort.log.backing import Checkpoint
from kohort.log.remote_log import RemoteLog
from kohort.log.standby import StandbyLog
from kohort.protocol.batches import Record, build
from runtime.fake_log import FakeLog
from runtime.served import NO_DELAY, Served, serving
from runtime.test_loading import T0, group_record, log_of
from runtime.test_txn_histories import History, steps
from runtime.virtual_time import virtual_time
from waiting import turns, until


class MovingLog(FakeLog):
    """A log that nodes lead one after the other."""

    def __init__(self, *batches):
        super().__init__()
        self.checkpoint = Checkpoint()
        self.failure_to_read = None
        self.read_offsets = []
        """Where the reads of its leader began."""
        for batch in batches:
            self.append(batch, 0)

    def read(self, offset, max_bytes, **options):
        self.read_offsets.append(offset)
        return super().read(offset, max_bytes, **options)

    def read_ahead(self, offset):
        if self.failure_to_read is not None:
            raise self.failure_to_read
        return super().read(offset, 1)

    def elsewhere(self):
        return RemoteLog(self.topic_partition, self.config)

    def standby(self):
        return StandbyLog(self.topic_partition, self.config, Ahead(self))


class Ahead:
    """The `Source` of a log, which gives one batch at a time."""

    def __init__(self, log):
        self.log = log
        self.read = getattr(log, "read_ahead", lambda offset: log.read(offset, 1))

    async def checkpoint(self):
        return self.log.checkpoint

    async def read_on(self, offset):
        await asyncio.sleep(0)
        at = offset
        while at < self.log.end_offset:
            if data := self.read(at):
                return data
            at += 1  # a read does not cross segments
        return b""


def moving_log():
    return MovingLog(*log_of(group_record()).batches)


async def serves(served):
    await until(lambda: served.groups.statistics()["shards"] == {"active": 1})


def heartbeat(served):
    return served.groups.heartbeat("g", 3, "m0", None)


@virtual_time
async def test_a_standby_reads_only_the_rest_of_the_log_when_it_serves():
    log = moving_log()
    async with serving(log) as leader, serving(log.elsewhere()) as follower:
        coming = log.standby()
        follower.groups.log_reopened(coming)
        assert not coming.is_ready
        await until(lambda: coming.is_ready)
        assert heartbeat(follower) is ErrorCode.not_coordinator
        assert not list(follower.groups.groups())
        leader.commit("g", {T0: 7}, member_id="m0", generation=3)
        await turns()
        leader.groups.log_reopened(log.elsewhere())
        log.read_offsets.clear()
        follower.groups.log_reopened(log)
        await serves(follower)
        assert log.read_offsets == [1]
        assert heartbeat(follower) is ErrorCode.none
        assert follower.groups.group("g").offsets[T0].offset == 7


@virtual_time
async def test_a_standby_goes_on_reading_when_it_is_told_to_look():
    log = moving_log()
    async with serving(log) as leader, serving(log.elsewhere()) as follower:
        coming = log.standby()
        told = []
        coming.on_ready = lambda: told.append(True)
        follower.groups.log_reopened(coming)
        await until(lambda: coming.is_ready)
        leader.commit("g", {T0: 7}, member_id="m0", generation=3)
        await turns()
        coming.look()
        await turns(10)
        log.read_offsets.clear()
        follower.groups.log_reopened(log)
        await serves(follower)
        assert not log.read_offsets
        assert follower.groups.group("g").offsets[T0].offset == 7
        assert told == [True]


@virtual_time
async def test_a_log_that_cannot_be_read_is_read_when_it_can():
    log = moving_log()
    log.failure_to_read = OSError("the storage is away")
    async with serving(log.elsewhere()) as follower:
        coming = log.standby()
        follower.groups.log_reopened(coming)
        await turns(10)
        assert not coming.is_ready
        log.failure_to_read = None
        coming.look()
        await until(lambda: coming.is_ready)


@virtual_time
async def test_a_record_that_cannot_be_replayed_does_not_keep_the_shard_from_moving():
    log = moving_log()
    log.append(build([Record(b"\x00\x01", b"x")]), 0)
    async with serving(log.elsewhere()) as follower:
        coming = log.standby()
        follower.groups.log_reopened(coming)
        await until(lambda: coming.is_ready)
        follower.groups.log_reopened(log)
        await until(lambda: follower.groups.statistics()["shards"] == {"failed": 1})


@virtual_time
async def test_all_is_read_again_once_batches_were_removed():
    log = moving_log()
    async with serving(log.elsewhere()) as follower:
        coming = log.standby()
        follower.groups.log_reopened(coming)
        await until(lambda: coming.is_ready)
        log.checkpoint = Checkpoint(cleaned=1)
        follower.groups.log_reopened(log)
        await serves(follower)
        assert log.read_offsets == [0]


@virtual_time
async def test_records_read_are_forgotten_when_the_standby_ends():
    log = moving_log()
    async with serving(log.elsewhere()) as follower:
        coming = log.standby()
        follower.groups.log_reopened(coming)
        await until(lambda: coming.is_ready)
        follower.groups.log_reopened(log.elsewhere())
        follower.groups.log_reopened(log)
        await serves(follower)
        assert log.read_offsets == [0]


@virtual_time
async def test_a_standby_decides_by_the_settings_of_the_moment_it_serves():
    log = moving_log()
    async with serving(log.elsewhere()) as follower:
        coming = log.standby()
        follower.groups.log_reopened(coming)
        await until(lambda: coming.is_ready)
        follower.groups.configure(
            NO_DELAY.__class__(initial_rebalance_delay_ms=0, min_session_timeout_ms=40_000)
        )
        follower.groups.log_reopened(log)
        await serves(follower)
        joining = follower.join("h", session_timeout_ms=30_000)
        await turns()
        assert joining.error == "invalid_session_timeout"


class Moves(History):
    """Two coordinators: one serves, the other one may stand by, and takes its place."""

    def __init__(self):
        super().__init__()
        self.following = None

    async def do(self, kind, *what):
        match kind, *what:
            case "follow", ():
                await self.follow()
            case "turns", count:
                await turns(count)
                if self.following is not None:
                    self.following.logs[0].look()
            case "move", ():
                await self.move()
            case _:
                await super().do(kind, *what)

    async def follow(self):
        if self.following is None:
            self.following = Served([RemoteLog(self.log.topic_partition, self.log.config)])
            self.following.groups.start()
            await self.following.groups.loaded()
        coming = StandbyLog(self.log.topic_partition, self.log.config, Ahead(self.log))
        self.following.logs = [coming]
        self.following.groups.log_reopened(coming)

    async def move(self):
        if self.following is None:
            return
        former, self.served, self.following = self.served, self.following, None
        former.groups.log_reopened(RemoteLog(self.log.topic_partition, self.log.config))
        self.served.groups.log_reopened(self.log)
        await serves(self.served)
        assert self.live() == self.logged()


async def test_records_that_compaction_removed_are_not_served():
    """A tombstone is gone, and was not read; what it has deleted was."""
    it = Moves()
    await it.begin()
    await it.do("commit", "g", 0)
    await it.follow()
    await until(lambda: it.following.logs[0].is_ready)
    await it.do("delete offset", "g", 0)
    for _ in range(6):  # those are segments of their own
        await it.do("commit", "h", 1)
        await it.do("compact", "g")
    await it.move()
    assert not it.served.groups.group("g").offsets


async def test_records_read_but_not_replayed_are_replayed_first():
    log = MovingLog(*log_of(*(group_record(f"g{number}") for number in range(3_000))).batches)
    async with serving(log.elsewhere()) as follower:
        coming = log.standby()
        follower.groups.log_reopened(coming)
        await until(lambda: log.reads == 1)
        follower.groups.log_reopened(log)
        await serves(follower)
        assert len(list(follower.groups.groups())) == 3_000
        assert not log.read_offsets


@settings(max_examples=examples(80))
@given(
    st.lists(
        st.one_of(
            steps,
            steps,
            st.just(("follow", ())),
            st.tuples(st.just("turns"), st.integers(1, 6)),
            st.just(("move", ())),
        ),
        min_size=10,
        max_size=60,
    )
)
def test_a_standby_that_takes_over_has_the_state_of_its_log(history):
    async def run():
        it = Moves()
        await it.begin()
        for step in history:
            await it.do(*step)
        await it.follow()
        await it.move()
        await it.served.groups.close()

    asyncio.run(run())
