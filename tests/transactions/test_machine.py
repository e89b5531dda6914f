"""Under any interleaving of producers, fencing, timeouts and crashes:

- live state == replay(log) == replay(compact(log));
- a producer id and epoch is given to one producer only;
- every transaction that began to end completes, once, as it began;
- only the latest producer of an id changes its state.
"""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effort import examples
from kohort.errors import ErrorCode
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import TransactionState
from kohort.transactions.transitions import LAST_EPOCH
from transactions.bench import TransactionBench

NAMES = ("t", "u")
CONFIG = TransactionCoordinatorConfig(id_expiration_ms=100_000)
COMPLETED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
ENDING = tuple(COMPLETED)

names = st.sampled_from(NAMES)
partitions = st.dictionaries(
    st.sampled_from(("orders", "flights")),
    st.frozensets(st.integers(0, 3), min_size=1),
    min_size=1,
)


def compact(log):
    """The last record of each id, in the order of the log."""
    last = {record.transactional_id: record for record in log}
    return [record for record in log if last[record.transactional_id] is record]


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.bench = TransactionBench(CONFIG)
        self.producers = {name: [(7, 0)] for name in NAMES}
        """Every producer that an id ever had, the latest last."""

    def draw(self, data, name):
        """The latest producer most of the time, else any."""
        known = self.producers[name]
        return known[-1] if data.draw(st.integers(0, 3)) else data.draw(st.sampled_from(known))

    @rule(name=names, timeout_ms=st.sampled_from((1_000, 60_000)))
    def new_producer(self, name, timeout_ms):
        error, *producer = self.bench.init(name, timeout_ms=timeout_ms)
        if not error:
            assert tuple(producer) not in self.producers[name]
            self.producers[name].append(tuple(producer))

    @rule(name=names, data=st.data())
    def recovering_producer(self, name, data):
        error, *producer = self.bench.init(name, self.draw(data, name))
        if not error:
            self.producers[name].append(tuple(producer))

    @rule(name=names, data=st.data(), added=partitions, version=st.sampled_from((0, 2)))
    def add(self, name, data, added, version):
        producer = self.draw(data, name)
        error = self.bench.add(producer, added, name, version)
        if not error:
            assert producer == self.bench.producer(name)
            assert not self.bench.verify(producer, added, name).missing

    @rule(name=names, data=st.data(), commit=st.booleans(), v5=st.booleans())
    def end(self, name, data, commit, v5):
        producer = self.draw(data, name)
        before = self.bench.shard.transactions.get(name)
        response = self.bench.end(producer, commit, name, v5=v5)
        if response.error is ErrorCode.none:
            after = self.bench.metadata(name)
            assert after == before or producer == (before.producer_id, before.producer_epoch)
            assert (after.state in (TransactionState.PREPARE_COMMIT,
                                    TransactionState.COMPLETE_COMMIT)) == commit  # fmt: skip
            if v5:
                self.producers[name].append(response[1:])
        else:
            assert self.bench.shard.transactions.get(name) == before

    @rule(name=names, commit=st.booleans(), v5=st.booleans(), added=partitions)
    def older_producers_act_in_an_open_transaction(self, name, commit, v5, added):
        self.bench.write_markers()
        error, *newer = self.bench.init(name)
        if error:
            return
        self.producers[name].append(tuple(newer))
        assert not self.bench.add(newer, added, name)
        before = self.bench.metadata(name)
        for older in dict.fromkeys(self.producers[name][:-1]):
            assert self.bench.end(older, commit, name, v5=v5).error
            assert self.bench.add(older, added, name)
        assert self.bench.metadata(name) == before

    @rule()
    def markers_are_written(self):
        self.bench.write_markers()

    @rule(ms=st.sampled_from((1, 1_000, 60_000, 100_000)))
    def wait(self, ms):
        self.bench.advance(ms)

    @rule()
    def expire(self):
        self.bench.expire()

    @rule(compacted=st.booleans())
    def crash(self, compacted):
        self.bench.restart(compact(self.bench.log) if compacted else None)

    @rule(name=names)
    @precondition(lambda self: self.bench.shard.transactions)
    def epochs_run_out(self, name):
        """As if the producer had asked for its epoch very often."""
        known = self.bench.shard.transactions.get(name)
        if known is not None and known.state not in ENDING:
            worn = known._replace(producer_epoch=max(known.producer_epoch, LAST_EPOCH - 1))
            self.bench.log.append(self.bench.log[-1]._replace(transactional_id=name, value=worn))
            self.bench.restart()
            self.producers[name].append(self.bench.producer(name))

    @invariant()
    def the_log_tells_everything(self):
        for log in (self.bench.log, compact(self.bench.log)):
            loaded = TransactionBench(CONFIG)
            loaded.restart(log)
            assert loaded.shard.transactions == self.bench.shard.transactions

    @invariant()
    def every_end_goes_on(self):
        ending = {
            (name, *self.bench.producer(name))
            for name, each in self.bench.shard.transactions.items()
            if each.state in ENDING
        }
        assert ending == {each[:3] for each in self.bench.unfinished}

    @invariant()
    def every_end_completes_as_it_began(self):
        for name in NAMES:
            states = [
                record.value.state
                for record in self.bench.log
                if record.transactional_id == name and record.value is not None
            ]
            for state, following in pairwise(states):
                assert following is COMPLETED.get(state, following)

    @invariant()
    def every_open_transaction_has_a_timer(self):
        opened = {
            name
            for name, each in self.bench.shard.transactions.items()
            if each.state is TransactionState.ONGOING
        }
        assert opened == {key.transactional_id for key in self.bench.timers}

    @invariant()
    def no_producer_has_the_epoch_of_the_last_markers(self):
        for known in self.producers.values():
            assert all(epoch <= LAST_EPOCH for _, epoch in known)


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(max_examples=examples(60), stateful_step_count=40)
