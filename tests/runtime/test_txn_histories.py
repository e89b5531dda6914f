"""Transactions in the group log, with crashes and compaction, against a model.

- live state == replay(log) == replay(compact(log)), and offsets are those of the model;
- a producer with an older epoch than the log has of it commits no offset.
"""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.offset_model import OffsetModel
from effort import examples
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.log.base import LogConfig
from kohort.log.memory import memory_log
from kohort.runtime.group_log import read_records
from kohort.runtime.log_reading import read_batches
from kohort.testing.bench import Bench
from kohort.types import TopicPartition
from runtime.served import Served

GROUPS, PARTITIONS, PRODUCERS = ("g", "h"), range(2), range(1, 3)
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=250,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=0,
)

groups = st.sampled_from(GROUPS)
partitions = st.sampled_from(PARTITIONS)
producers = st.sampled_from(PRODUCERS)
steps = st.one_of(
    st.tuples(st.just("commit"), groups, partitions),
    st.tuples(st.just("txn"), producers, groups, st.sets(partitions, min_size=1)),
    st.tuples(st.just("txn"), producers, groups, st.sets(partitions, min_size=1)),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("end"), producers, st.just(True)),
    st.tuples(st.just("fence"), producers),
    st.tuples(st.just("late txn"), producers, groups, partitions),
    st.tuples(st.sampled_from(("delete", "compact", "crash")), groups),
    st.tuples(st.just("delete offset"), groups, partitions),
)


async def answer(call):
    for _ in range(10):
        if not call.parked:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"never answered: {call}")


class History:
    """A coordinator on a log, which is dropped and loaded again."""

    def __init__(self):
        self.log = memory_log(TopicPartition("__consumer_offsets", 0), CONFIG)
        self.offset = 0
        self.model = OffsetModel()
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        """Of the latest producer with each id."""

    async def begin(self):
        self.served = Served([self.log], GroupCoordinatorConfig())
        self.served.groups.start()
        await self.served.groups.loaded()

    async def do(self, kind, *what):
        self.offset += 1
        served = self.served
        match kind, *what:
            case "commit", group, partition:
                await answer(served.commit(group, {("t", partition): self.offset}))
                self.model.commit({(group, "t", partition): self.offset})
            case "txn", producer, group, some:
                assert await self.commit(producer, self.epochs[producer], group, some) == {"none"}
                self.model.commit({(group, "t", each): self.offset for each in some}, producer)
            case "late txn", producer, group, partition if self.epochs[producer]:
                found = await self.commit(producer, self.epochs[producer] - 1, group, [partition])
                assert found == {"invalid_producer_epoch"}
            case "end", producer, commit:
                await self.end(producer, commit)
            case "fence", producer:
                self.epochs[producer] += 1
                await self.end(producer, False)
            case "delete", group:
                call = served.delete(group)
                await answer(call)
                for each in PARTITIONS:
                    self.model.delete((group, "t", each))
            case "delete offset", group, partition:
                await answer(served.delete_offsets(group, ("t", partition)))
                self.model.delete((group, "t", partition))
            case "compact", _:
                await self.log.compact(served.clock.timestamp())
            case "crash", _:
                await self.begin()  # the former one is left as it is, nothing was closed

    async def commit(self, producer, epoch, group, some):
        """The errors of a commit in a transaction."""
        offsets = {("t", partition): self.offset for partition in some}
        call = self.served.txn_commit(group, offsets, producer_id=producer, producer_epoch=epoch)
        await answer(call)
        return {error.name for _, error in call.response.results}

    async def end(self, producer, commit):
        await self.served.groups.complete_transaction(
            *(0, producer, self.epochs[producer]),
            commit=commit,
            coordinator_epoch=0,
            transaction_version=0,
        )
        self.model.end(producer, commit=commit)

    async def validate_offsets(self):
        """Those that are fetched are the model's."""
        for group in GROUPS:
            call = self.served.fetch(group, *(("t", each) for each in PARTITIONS))
            await answer(call)
            found = {(e.topic, e.partition): e.offset for e in call.response.offsets}
            offsets = self.model.offsets(group)
            assert found == {("t", each): offsets.get(("t", each), -1) for each in PARTITIONS}

    def live(self):
        return {
            group.id: (group.logged, dict(group.offsets), pending.state() if pending else {})
            for group in self.served.groups.groups()
            for pending in (group.offsets.pending,)
            if group.logged is not None or group.offsets or pending
        }

    def logged(self):
        entries = [entry for part in read_records(read_batches(self.log)) for entry in part]
        return Bench(log=entries).shard.logged_state()


@settings(max_examples=examples(80))
@given(st.lists(steps, min_size=10, max_size=60))
def test_the_log_tells_what_is_live_also_when_it_is_compacted(history):
    async def run():
        it = History()
        await it.begin()
        for step in history:
            await it.do(*step)
            await it.validate_offsets()
        assert it.logged() == it.live()
        for _ in range(2):
            await it.log.compact(it.served.clock.timestamp())
            assert it.logged() == it.live()
        await it.served.groups.close()

    asyncio.run(run())
