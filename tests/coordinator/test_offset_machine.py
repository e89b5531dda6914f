"""Offsets of a classic and of a consumer group, committed in transactions and without.

Under any interleaving of members, producers, markers, deletions and restarts:

- a commit is accepted exactly from those who may commit: in a transaction, too, only from members
  of the current generation, or who have had the partition since the epoch that they name, and from
  those who name none;
- what is fetched is what was accepted last, and in a transaction only after its COMMIT marker;
- `require_stable` refuses exactly the partitions that an open transaction has an offset of,
  whichever are asked for together;
- all of this is the same after the log was loaded, compacted or not.
"""

from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator.log_entries import compact, decoded
from coordinator.offset_model import OffsetModel
from effort import examples
from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.testing.bench import Bench

CLASSIC, CONSUMER = GROUPS = ("classic", "consumer")
TOPICS = {"t": UUID(int=1), "u": UUID(int=2)}
PARTITIONS = [(topic, partition) for topic in TOPICS for partition in range(2)]
CONFIG = GroupCoordinatorConfig(
    initial_rebalance_delay_ms=0, consumer=ConsumerGroupConfig(assignment_interval_ms=0)
)
NAMES = ("m0", "m1")
"""Members of the consumer group."""

groups = st.sampled_from(GROUPS)
producers = st.integers(1, 2)
versions = st.sampled_from([5, 6])
offsets = st.dictionaries(
    st.sampled_from(PARTITIONS), st.integers(0, 2**40), min_size=1, max_size=3
)


class Identity(NamedTuple):
    """Who commits."""

    member_id: str
    generation: int

    @property
    def names_nobody(self) -> bool:
        return not self.member_id and self.generation < 0


class ClassicMembers:
    """The members of the classic group, as its coordinator has told them."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.generation = 0
        self.syncs = False
        """Whether all have joined, and none has its assignment."""
        self.logged: tuple[list[str], int] = [], 0
        """Members and generation that a restart brings back."""


class ConsumerMember:
    """A member of the consumer group, as its coordinator has told it."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.told: set[tuple[UUID, int]] = set()
        self.since: dict[tuple[UUID, int], int] = {}
        """The epoch in which the member got each partition that it has not given up."""

    def has_had(self, offsets: dict[tuple[str, int], int], epoch: int) -> bool:
        return all(
            self.since.get((TOPICS[topic], partition), epoch + 1) <= epoch
            for topic, partition in offsets
        )


class OffsetMachine(RuleBasedStateMachine):
    BENCH = Bench

    def __init__(self) -> None:
        super().__init__()
        images = [TopicImage(name, topic_id, 2) for name, topic_id in TOPICS.items()]
        self.bench = self.BENCH(CONFIG, topics=FixedTopics(images, 1))
        self.model = OffsetModel()
        self.classic = ClassicMembers()
        self.consumers: dict[str, ConsumerMember] = {}
        self.rounds = 0
        """Of the classic group: members join with another subscription in each."""

    # --- members ---

    @rule(joins=st.booleans(), leaves=st.booleans())
    def everyone_joins(self, joins: bool, leaves: bool) -> None:
        """The next generation of the classic group, which has no assignment yet."""
        known = self.classic
        if leaves and known.ids:
            self.leave(known.ids.pop())
        self.rounds += 1
        new = {"protocols": {"range": b"%d" % self.rounds}}
        calls = []
        if not known.ids or (joins and len(known.ids) < 3):
            calls.append(self.bench.join(CLASSIC, version=3, **new))
        calls += [self.bench.join(CLASSIC, each, **new) for each in known.ids]
        self.bench.advance(1)
        known.ids = [call.response.member_id for call in calls]
        known.generation, known.syncs = calls[0].response.generation, True

    @precondition(lambda self: self.classic.syncs)
    @rule()
    def everyone_syncs(self) -> None:
        known = self.classic
        assignments = {each: each.encode() for each in known.ids}
        for each in known.ids:
            self.bench.sync(CLASSIC, each, known.generation, assignments)
        known.syncs, known.logged = False, ([*known.ids], known.generation)

    @precondition(lambda self: self.classic.ids and not self.classic.syncs)
    @rule()
    def everyone_leaves(self) -> None:
        self.leave(*self.classic.ids)
        self.classic.ids = []

    def leave(self, *members: str) -> None:
        self.bench.leave(CLASSIC, *members)
        if not self.bench.group(CLASSIC).sessions:
            self.classic.logged = [], 0

    @rule(name=st.sampled_from(NAMES))
    def beats(self, name: str) -> None:
        """The member of the consumer group joins, or has what it was told last."""
        member = self.consumers.get(name)
        owned: dict[UUID, tuple[int, ...]] = {}
        for topic, partition in sorted(member.told) if member else ():
            owned[topic] = (*owned.get(topic, ()), partition)
        call = self.bench.consumer_heartbeat(
            CONSUMER, name, member.epoch if member else 0, topics=[*TOPICS], owned=owned
        )
        assert not call.response.error
        if member is None:
            member = self.consumers[name] = ConsumerMember(call.response.member_epoch)
        member.epoch = call.response.member_epoch
        kept = set(member.told)
        if call.response.assignment is not None:
            member.told = {
                (topic, each) for topic, some in call.response.assignment.items() for each in some
            }
        member.since = {each: member.since.get(each, member.epoch) for each in kept | member.told}

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.consumers)))
        del self.consumers[name]
        self.bench.consumer_heartbeat(CONSUMER, name, -1)

    # --- commits ---

    def identities(self, group: str) -> list[Identity]:
        """Who may commit, and others that are wrong in one point or two."""
        if group == CLASSIC:
            known = dict.fromkeys(self.classic.ids, self.classic.generation)
        else:
            known = {name: member.epoch for name, member in self.consumers.items()}
        latest = max(known.values(), default=0)
        return [
            Identity(member_id, generation)
            for member_id in (*known, "", "stranger")
            for right in (known.get(member_id, latest),)
            for generation in dict.fromkeys((right, right - 1, right + 1, -1))
        ]

    def errors(
        self,
        group: str,
        who: Identity,
        offsets: dict[tuple[str, int], int],
        *,
        by_id: bool,
        transactional: bool,
        has_member_epoch: bool,
    ) -> set[str]:
        """The errors that a commit may get, "none" if it is to be accepted."""
        known = self.classic.ids if group == CLASSIC else self.consumers
        if who.generation < 0 and (not known or (transactional and who.names_nobody)):
            return {"none"}
        if not known:
            return {"unknown_member_id", "illegal_generation", "group_id_not_found"}
        if who.member_id not in known:
            return {"unknown_member_id"}
        if group == CLASSIC:
            if who.generation != self.classic.generation:
                return {"illegal_generation"}
            in_sync_phase = self.classic.syncs and not transactional
            return {"rebalance_in_progress" if in_sync_phase else "none"}
        member = self.consumers[who.member_id]
        older = by_id and who.generation < member.epoch and member.has_had(offsets, who.generation)
        if who.generation == member.epoch or older:
            return {"none"}
        return {"stale_member_epoch" if has_member_epoch else "illegal_generation"}

    def commit(
        self,
        group: str,
        who: Identity,
        offsets: dict[tuple[str, int], int],
        producer: int | None,
        *,
        by_id: bool,
        version: int,
    ) -> None:
        """`version`: that of the TxnOffsetCommit."""
        ids = TOPICS if by_id else {}
        to_commit = {
            (topic, partition): OffsetToCommit(topic, partition, offset, topic_id=ids.get(topic))
            for (topic, partition), offset in offsets.items()
        }
        identity = {"member_id": who.member_id, "generation": who.generation}
        if producer is None:
            call = self.bench.commit(group, to_commit, **identity)
        else:
            call = self.bench.txn_commit(
                group, to_commit, producer_id=producer, version=version, **identity
            )
        expected = self.errors(
            group,
            who,
            offsets,
            by_id=by_id,
            transactional=producer is not None,
            has_member_epoch=producer is None or version >= 6,
        )
        assert {error.name for _, error in call.response.results} <= expected, (who, expected)
        if "none" in expected:
            accepted = {(group, *partition): offset for partition, offset in offsets.items()}
            self.model.commit(accepted, producer)

    @rule(
        group=groups,
        offsets=offsets,
        data=st.data(),
        producer=st.none() | producers,
        by_id=st.booleans(),
        version=versions,
    )
    def commits(self, group, offsets, data, producer, by_id, version) -> None:
        who = data.draw(st.sampled_from(self.identities(group)))
        self.commit(group, who, offsets, producer, by_id=by_id, version=version)

    @rule(
        group=groups,
        partition=st.sampled_from(PARTITIONS),
        producer=st.none() | producers,
        by_id=st.booleans(),
        version=versions,
    )
    def everyone_commits(self, group, partition, producer, by_id, version) -> None:
        for offset, who in enumerate(self.identities(group)):
            self.commit(group, who, {partition: offset}, producer, by_id=by_id, version=version)

    @rule(group=groups, partition=st.sampled_from(PARTITIONS), some=st.permutations([None, 1, 2]))
    def commits_of_nobody_follow_each_other(self, group, partition, some) -> None:
        """On one partition: those of producers, and a plain one if the group has no members."""
        for number, producer in enumerate(some):
            offset = {partition: number}
            if producer is not None:
                self.bench.txn_commit(group, offset, producer_id=producer)
            elif self.classic.ids if group == CLASSIC else self.consumers:
                continue
            else:
                self.bench.commit(group, offset)
            self.model.commit({(group, *partition): number}, producer)

    @rule(producer=producers, commit=st.booleans())
    def marker_is_written(self, producer: int, commit: bool) -> None:
        self.bench.end_transaction(producer, commit=commit)
        self.model.end(producer, commit=commit)

    # --- deletions and restarts ---

    @rule(group=groups, partition=st.sampled_from(PARTITIONS))
    def offset_is_deleted(self, group: str, partition: tuple[str, int]) -> None:
        response = self.bench.delete_offsets(group, partition).response
        if not response.error and not response.results[0][1]:
            self.model.delete((group, *partition))

    @rule(topic=st.sampled_from([*TOPICS]), unlikely=st.integers(0, 3))
    def topic_is_deleted(self, topic: str, unlikely: int) -> None:
        """Its offsets are; the topic is there again at once."""
        if unlikely == 0:
            self.bench.delete_topics(topic)
            for group, (name, partition) in ((g, p) for g in GROUPS for p in PARTITIONS):
                if name == topic:
                    self.model.delete((group, name, partition))

    @rule(group=groups)
    def group_is_deleted(self, group: str) -> None:
        if self.bench.delete(group).error == "none":
            for partition in PARTITIONS:
                self.model.delete((group, *partition))

    @rule(compacted=st.booleans())
    def coordinator_restarts(self, compacted: bool) -> None:
        log = compact(self.bench.log) if compacted else self.bench.log
        self.bench.log = [decoded(entry) for entry in log]
        self.bench.restart()
        known = self.classic
        known.ids, known.generation, known.syncs = [*known.logged[0]], known.logged[1], False

    # --- what always holds ---

    @invariant()
    def fetched_is_what_counts(self) -> None:
        for group in GROUPS:
            offsets, unstable = self.model.offsets(group), self.model.unstable(group)
            every = {at: offsets.get(at, -1) for at in PARTITIONS}
            stable = every | dict.fromkeys(unstable, "unstable_offset_commit")
            assert self.fetch(group, *PARTITIONS) == every
            assert self.fetch(group, *PARTITIONS, require_stable=True) == stable
            for at in PARTITIONS:
                assert self.fetch(group, at, require_stable=True) == {at: stable[at]}
            assert self.fetch(group, everything=True) == offsets
            of_committed = {at: stable[at] for at in offsets}
            assert self.fetch(group, everything=True, require_stable=True) == of_committed

    def fetch(self, group: str, *partitions: tuple[str, int], **options: Any) -> dict[Any, Any]:
        found = self.bench.fetch(group, *partitions, **options).response.offsets
        return {(e.topic, e.partition): e.error.name if e.error else e.offset for e in found}


TestOffsetMachine = OffsetMachine.TestCase
TestOffsetMachine.settings = settings(
    max_examples=examples(80), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
