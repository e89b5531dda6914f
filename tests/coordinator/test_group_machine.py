"""Under any interleaving of requests, timers, lost connections and restarts:

- no partition is owned by two members in one generation;
- a group's generation only grows;
- every request is answered exactly once, or lost with the process that it waited in;
- a commit that was acknowledged is fetched, one of a transaction once that is committed;
- live state == replay(log) == replay(compact(log)).
"""

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.log_entries import compact, decoded
from effort import examples
from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import (
    Entry,
    OffsetCommitKey,
    OffsetCommitRecord,
    TransactionalOffsets,
    TransactionMarker,
)
from kohort.coordinator.requests import ConnectionClosed, ExpireOffsets, TopicsDeleted
from kohort.coordinator.result import JoinPhaseEnds, SessionExpires, SyncPhaseEnds
from kohort.coordinator.shard import Shard
from kohort.testing.bench import Bench, Call

GROUPS = ("g", "h")
TOPICS = ("orders", "flights")
PROTOCOLS = ("range", "roundrobin", "sticky")
CONFIG = GroupCoordinatorConfig(
    initial_rebalance_delay_ms=500, max_size=4, offsets_retention_ms=60_000
)

groups = st.sampled_from(GROUPS)
preferences = st.permutations(PROTOCOLS) | st.lists(
    st.sampled_from(PROTOCOLS), min_size=1, max_size=2, unique=True
)
timeouts = st.sampled_from((6_000, 10_000, 30_000))


class Committed(NamedTuple):
    """What a log says about offsets, by the rule of Kafka's OffsetMetadataManager."""

    offsets: dict[OffsetCommitKey, tuple[int, int]]
    """(position in the log, offset)."""
    open: dict[int, dict[OffsetCommitKey, tuple[int, int]]]
    """The same for each producer with an open transaction."""

    @classmethod
    def of(cls, log: Iterable[Entry]) -> "Committed":
        said = cls({}, {})
        for position, entry in enumerate(log):
            if isinstance(entry, TransactionalOffsets):
                pending = said.open.setdefault(entry.producer_id, {})
                for key, value in entry.commits.rows():
                    pending[key] = position, value.offset
            elif isinstance(entry, TransactionMarker):
                for key, pending in said.open.pop(entry.producer_id, {}).items():
                    if entry.commit and pending > said.offsets.get(key, (-1, 0)):
                        said.offsets[key] = pending
            elif isinstance(entry, OffsetCommitRecord):
                if entry.value is not None:
                    said.offsets[entry.key] = position, entry.value.offset
                else:
                    for offsets in (said.offsets, *said.open.values()):
                        offsets.pop(entry.key, None)
        return said


def reload(log: Iterable[Entry]) -> Shard:
    shard = Shard(CONFIG)
    for entry in log:
        shard.replay(decoded(entry))
    return shard


class GroupMachine(RuleBasedStateMachine):
    BENCH = Bench

    def __init__(self) -> None:
        super().__init__()
        self.bench = self.BENCH(CONFIG)
        self.ids: dict[str, list[str]] = {group: ["nobody"] for group in GROUPS}
        """Every member id that was ever handed out."""
        self.generations: dict[str, int] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.calls: list[Call] = []

    def sessions(self, group):
        live = self.bench.shard.groups.get(group)
        return live.sessions if live else {}

    def draw_member(self, data, group):
        """A member or a pending id if there is one, most of the time; else any id that was ever
        handed out.
        """
        live = self.bench.shard.groups.get(group)
        known = sorted({*live.sessions, *live.pending}) if live else []
        stranger = data.draw(st.integers(0, 9)) == 0
        return data.draw(st.sampled_from(self.ids[group] if stranger or not known else known))

    # --- what clients do ---

    @rule(
        group=groups,
        names=preferences,
        timeout=timeouts,
        version=st.sampled_from((0, 3, 5, 9)),
        connection=st.integers(0, 2),
        instance=st.none() | st.sampled_from(("i1", "i2")),
        kind=st.sampled_from(("consumer",) * 7 + ("connect",)),
    )
    def join_new(self, group, names, timeout, version, connection, instance, kind):
        self.join(
            group, "", names, timeout, version, connection, instance if version >= 5 else None, kind
        )

    @rule(group=groups, names=preferences, timeout=timeouts, data=st.data())
    def join_known(self, group, names, timeout, data):
        member_id = self.draw_member(data, group)
        session = self.sessions(group).get(member_id)
        instance = data.draw(
            st.sampled_from((None, "i1", session.instance_id if session else None))
        )
        self.join(group, member_id, names, timeout, 9, None, instance, "consumer")

    def join(self, group, member_id, names, timeout, version, connection, instance, kind):
        call = self.bench.join(
            group,
            member_id,
            version=version,
            instance_id=instance,
            protocols={name: f"{name} of {connection}".encode() for name in names},
            protocol_type=kind,
            session_timeout_ms=timeout,
            rebalance_timeout_ms=timeout * 2,
            connection=connection,
        )
        self.calls.append(call)

    @rule(group=groups, shift=st.integers(0, 1))
    def everyone_joins_again(self, group, shift):
        for member_id, session in list(self.sessions(group).items()):
            names = [name for name, _ in session.protocols]
            self.join(
                group,
                member_id,
                names[shift:] + names[:shift],
                10_000,
                9,
                None,
                session.instance_id,
                "consumer",
            )

    @initialize(members=st.integers(0, 3))
    def begin_stable(self, members):
        for _ in range(members):
            self.settle("g", None)

    @rule(group=groups, joiner=st.sampled_from(("nobody", "i1", "i2", None)))
    def settle(self, group, joiner):
        """What well-behaved clients do all day: (one joins, static or not,) all join again, time
        passes, all sync.
        """
        if joiner != "nobody":
            self.join(
                group, "", ["range", "sticky"], 10_000, 5 if joiner else 3, None, joiner, "consumer"
            )
        self.everyone_joins_again(group, 0)
        self.bench.advance(1_000)
        self.everyone_syncs(group)

    @rule(group=groups)
    def everyone_syncs(self, group):
        for member_id in list(self.sessions(group)):
            self.sync_as(group, member_id, self.bench.group(group).generation, range(4))

    @rule(group=groups, data=st.data(), right=st.integers(0, 5))
    def sync(self, group, data, right):
        member_id = self.draw_member(data, group)
        live = self.bench.shard.groups.get(group)
        generation = live.generation if live and right != 0 else data.draw(st.integers(-1, 5))
        self.sync_as(group, member_id, generation, data.draw(st.permutations(range(4))))

    def sync_as(self, group, member_id, generation, partitions):
        members = sorted(self.sessions(group))
        assignments = {
            m: bytes(sorted(partitions[i :: len(members)])) for i, m in enumerate(members)
        }
        old = {"version": 4, "protocol_type": None, "protocol_name": None}
        self.calls.append(self.bench.sync(group, member_id, generation, assignments, **old))

    @rule(group=groups, data=st.data(), right=st.integers(0, 5))
    def heartbeat(self, group, data, right):
        member_id = self.draw_member(data, group)
        live = self.bench.shard.groups.get(group)
        generation = live.generation if live and right != 0 else data.draw(st.integers(-1, 5))
        self.calls.append(self.bench.heartbeat(group, member_id, generation))

    @rule(group=groups, data=st.data())
    def leave(self, group, data):
        members = [self.draw_member(data, group)]
        instance = data.draw(st.none() | st.sampled_from(("i1", "i2")))
        leaving = [*members, ("", instance)] if instance else members
        self.calls.append(self.bench.leave(group, *leaving))

    @rule(
        group=groups,
        topic=st.sampled_from(TOPICS),
        partition=st.integers(0, 2),
        offset=st.integers(0, 2**40),
        data=st.data(),
        simple=st.booleans(),
        retention=st.sampled_from((-1, -1, 5_000)),
    )
    def commit(self, group, topic, partition, offset, data, simple, retention):
        live = self.bench.shard.groups.get(group)
        member_id = "" if simple else self.draw_member(data, group)
        generation = -1 if simple or live is None else live.generation
        call = self.bench.commit(
            group,
            {(topic, partition): offset},
            member_id=member_id,
            generation=generation,
            retention_ms=retention,
        )
        self.calls.append(call)
        if call.response.results[0][1].name == "none":
            self.committed[group, topic, partition] = offset

    @rule(
        group=groups,
        producer=st.integers(1, 2),
        offsets=st.dictionaries(
            st.tuples(st.just(TOPICS[0]), st.integers(0, 2)),
            st.integers(0, 2**40),
            min_size=1,
            max_size=3,
        ),
        data=st.data(),
        simple=st.booleans(),
    )
    def commit_in_transaction(self, group, producer, offsets, data, simple):
        live = self.bench.shard.groups.get(group)
        member_id = "" if simple else self.draw_member(data, group)
        generation = -1 if simple or live is None else live.generation
        call = self.bench.txn_commit(
            group, offsets, producer_id=producer, member_id=member_id, generation=generation
        )
        self.calls.append(call)

    @rule(producer=st.integers(1, 2), commit=st.booleans())
    def end_transaction(self, producer, commit):
        self.bench.end_transaction(producer, commit=commit)
        said = Committed.of(self.bench.log).offsets
        self.committed = {
            (key.group, key.topic, key.partition): offset for key, (_, offset) in said.items()
        }

    # --- what administrators do, and what happens to everyone ---

    @precondition(lambda self: self.bench.now % 3 == 0)
    @rule(group=groups)
    def delete(self, group):
        self.calls.append(self.bench.delete(group))

    @rule(group=groups, topic=st.sampled_from(TOPICS))
    def delete_offsets(self, group, topic):
        self.calls.append(self.bench.delete_offsets(group, (topic, 0), (topic, 1)))

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic):
        self.bench.post(TopicsDeleted(frozenset({topic})))

    @rule()
    def expire_offsets(self):
        self.bench.post(ExpireOffsets())

    @rule(connection=st.integers(0, 2))
    def lose_connection(self, connection):
        self.bench.post(ConnectionClosed(connection))

    @rule(ms=st.sampled_from((0, 1, 100, 500, 501, 3_000, 10_000)))
    def wait(self, ms):
        self.bench.advance(ms)

    @rule()
    def restart(self):
        self.calls = [call for call in self.calls if not call.parked]
        self.bench.restart()
        self.generations.clear()

    def teardown(self):
        """Whatever is parked is answered when the longest timers have passed."""
        self.bench.advance(700_000)
        assert not [call for call in self.calls if call.parked]

    # --- what must always hold ---

    @invariant()
    def answered_at_most_once(self):
        assert all(len(call.responses) <= 1 for call in self.calls)

    @invariant()
    def learn_ids(self):
        for call in self.calls[-1:]:
            member_id = getattr(call.responses[0], "member_id", "") if call.responses else ""
            if member_id and member_id not in self.ids[call.request.group]:
                self.ids[call.request.group].append(member_id)
        for group in self.bench.shard.groups.values():
            self.ids[group.id] += [
                member for member in group.sessions if member not in self.ids[group.id]
            ]

    @invariant()
    def generations_grow(self):
        self.generations = {
            g: n for g, n in self.generations.items() if g in self.bench.shard.groups
        }
        for group in self.bench.shard.groups.values():
            assert group.generation >= self.generations.get(group.id, 0)
            self.generations[group.id] = group.generation

    @invariant()
    def every_partition_has_one_owner(self):
        for group in self.bench.shard.groups.values():
            if group.logged is not None:
                owned = [p for member in group.logged.members.values() for p in member.assignment]
                assert len(owned) == len(set(owned))

    @invariant()
    def members_are_who_is_logged(self):
        for group in self.bench.shard.groups.values():
            if group.state is State.STABLE:
                assert group.logged is not None
                assert set(group.sessions) == set(group.logged.members)
                assert group.leader in group.sessions
                assert group.select_protocol() == group.protocol
            assert set(group.instances.values()) <= set(group.sessions)
            assert all(
                session.instance_id is None or group.instances[session.instance_id] == member_id
                for member_id, session in group.sessions.items()
            )

    @invariant()
    def parked_requests_are_of_members(self):
        for group in self.bench.shard.groups.values():
            if group.round is not None:
                assert set(group.round.joins) <= set(group.sessions)
                assert set(group.round.syncs) <= set(group.sessions)
                assert not (group.round.joining and group.round.syncs)

    @invariant()
    def everyone_has_a_timer(self):
        """A member that nobody waits for would be a zombie; a round without a timer would never
        end.
        """
        timers = set(self.bench.timers)
        for group in self.bench.shard.groups.values():
            round_ = group.round
            parked = {*round_.joins, *round_.syncs} if round_ is not None else set()
            for member_id in {*group.sessions, *group.pending} - parked:
                assert SessionExpires(group.id, member_id) in timers
            if round_ is not None:
                assert (JoinPhaseEnds if round_.joining else SyncPhaseEnds)(group.id) in timers

    @invariant()
    def acknowledged_commits_are_fetched(self):
        gone = {
            (record.key.group, record.key.topic, record.key.partition)
            for record in self.bench.log
            if isinstance(record, OffsetCommitRecord) and record.value is None
        }
        said = Committed.of(self.bench.log)
        known = {
            OffsetCommitKey(group.id, *partition): value.offset
            for group in self.bench.shard.groups.values()
            for partition, value in group.offsets.items()
        }
        assert known == {key: offset for key, (_, offset) in said.offsets.items()}
        for (group, topic, partition), offset in list(self.committed.items()):
            fetched = self.bench.fetch(group, (topic, partition)).response.offsets[0]
            if fetched.offset == -1:
                assert (group, topic, partition) in gone
                del self.committed[group, topic, partition]
            else:
                assert fetched.offset == offset

    @invariant()
    def offsets_of_open_transactions_are_unstable(self):
        said = Committed.of(self.bench.log)
        unstable = {key for pending in said.open.values() for key in pending}
        partitions = [(topic, partition) for topic in TOPICS for partition in range(3)]
        for group in GROUPS:
            fetched = self.bench.fetch(group, *partitions, require_stable=True).response.offsets
            assert {OffsetCommitKey(group, e.topic, e.partition) for e in fetched if e.error} == {
                key for key in unstable if key.group == group
            }

    @invariant()
    def the_log_tells_everything(self):
        live = self.bench.shard.logged_state()
        assert reload(self.bench.log).logged_state() == live
        assert reload(compact(self.bench.log)).logged_state() == live


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=examples(60), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
