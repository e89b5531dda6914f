"""A group of members of both protocols, which changes its type with them, on a restarting server.

- no partition is owned by two members of the group, but one of a member that was removed unawares;
- a generation, or epoch, of a group that has members only grows;
- live state == replay(log) == replay(compact(log));
- members that do what they are told reach an assignment of all partitions.
"""

from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effort import examples
from kohort.coordinator.classic import Group
from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.coordinator.shard import Shard
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.testing.bench import Bench
from kohort.types import TopicPartition

T = UUID(int=1)
COUNT = 4
TOPICS = FixedTopics([TopicImage("t", T, COUNT)], version=1)
CONFIG = GroupCoordinatorConfig(
    initial_rebalance_delay_ms=500, consumer=ConsumerGroupConfig(assignment_interval_ms=1_000)
)
KINDS = ("eager", "cooperative", "consumer")
numbers = st.integers(0, 3)


def named(partitions):
    return tuple(TopicPartition("t", each) for each in sorted(partitions))


def by_id(partitions):
    return {T: tuple(sorted(partitions))} if partitions else {}


class Consumer:
    """A member of the consumer protocol, as its client sees it."""

    kind = "consumer"

    def __init__(self, bench, number, incarnation):
        self.bench, self.member_id = bench, f"c{number}-{incarnation}"
        self.lose()

    def lose(self):
        self.epoch, self.owned, self.told, self.is_removed = 0, set(), None, False

    def turn(self):
        """Send one heartbeat, with what it owns if that has changed."""
        acknowledges, self.told = self.told is not None, None
        fields = {"owned": by_id(self.owned)} if acknowledges else {}
        topics = None if self.epoch else ["t"]
        call = self.bench.consumer_heartbeat(
            "g", self.member_id, self.epoch, topics=topics, **fields
        )
        if call.error in ("unknown_member_id", "fenced_member_epoch"):
            self.lose()
        elif call.error == "none":
            self.epoch = call.response.member_epoch
            if call.response.assignment is not None:
                self.told = self.owned = set(call.response.assignment.get(T, ()))

    def leave(self):
        if self.epoch:
            self.bench.consumer_heartbeat("g", self.member_id, -1)
        self.lose()

    def forget_requests(self):
        self.epoch = self.epoch  # a heartbeat never waits


class Classic:
    """A member of the classic protocol, as its client sees it."""

    def __init__(self, bench, kind):
        self.bench, self.kind, self.member_id = bench, kind, ""
        self.lose()

    def lose(self):
        self.generation, self.owned, self.call, self.has_to_join = -1, set(), None, True
        self.is_removed = False

    def turn(self):
        """Take a response, or send the next request."""
        if self.call is not None:
            if not self.call.parked:
                call, self.call = self.call, None
                self.learn(call)
        elif self.has_to_join:
            self.join()
        else:
            self.judge(self.bench.heartbeat("g", self.member_id, self.generation).error)

    def join(self):
        if self.kind == "eager":
            self.owned = set()
        subscription = Subscription(
            topics=("t",), owned=named(self.owned), generation=self.generation
        )
        self.call = self.bench.join(
            "g",
            self.member_id,
            protocols={"p": encode_subscription(subscription)},
            session_timeout_ms=30_000,
            rebalance_timeout_ms=20_000,
        )
        self.is_joining = True

    def learn(self, call):
        if call.error != "none":
            if call.error == "member_id_required":
                self.member_id = call.response.member_id
            self.judge(call.error)
        elif self.is_joining:
            self.generation, self.member_id = call.response.generation, call.response.member_id
            blobs = assign(call.response.members)
            self.is_joining = False
            self.call = self.bench.sync(
                "g", self.member_id, self.generation, blobs, protocol_name="p"
            )
        else:
            got = decode_assignment(call.response.assignment).partitions
            assigned = {partition for _, partition in got}
            self.has_to_join = bool(self.owned - assigned)
            self.owned, self.is_removed = assigned, False

    def judge(self, error):
        if error in ("unknown_member_id", "illegal_generation"):
            self.lose()
            if error == "unknown_member_id":
                self.member_id = ""
        elif error != "none":
            self.has_to_join = True

    def leave(self):
        if self.member_id:
            self.bench.leave("g", self.member_id)
        self.lose()
        self.member_id = ""

    def forget_requests(self):
        if self.call is not None:
            self.call, self.has_to_join = None, True


def assign(members):
    """The leader's assignment: a partition that another member owns is not assigned at first."""
    ids = sorted(member.member_id for member in members)
    owner = {
        partition: member.member_id
        for member in members
        for _, partition in decode_subscription(member.metadata).owned
    }
    shares = {each: set() for each in ids}
    for partition in range(COUNT if ids else 0):
        member_id = ids[partition % len(ids)]
        if owner.get(partition, member_id) == member_id:
            shares[member_id].add(partition)
    return {
        each: encode_assignment(Assignment(partitions=named(share)))
        for each, share in shares.items()
    }


def compact(log):
    last = {(type(entry), entry.key): at for at, entry in enumerate(log)}
    return [entry for at, entry in enumerate(log) if last[type(entry), entry.key] == at]


class MigrationMachine(RuleBasedStateMachine):
    BENCH = Bench

    def __init__(self):
        super().__init__()
        self.bench = self.BENCH(CONFIG, topics=TOPICS)
        self.incarnations = 0
        self.clients = [self.client("eager", 0), self.client("cooperative", 1)]
        self.epoch = 0

    def client(self, kind, number):
        self.incarnations += 1
        if kind == "consumer":
            return Consumer(self.bench, number, self.incarnations)
        return Classic(self.bench, kind)

    @property
    def members(self):
        group = self.bench.shard.groups.get("g")
        return {} if group is None else group.sessions

    @rule(number=numbers)
    def one_goes_on(self, number):
        if number < len(self.clients):
            self.clients[number].turn()

    @rule()
    def all_go_on(self):
        for client in self.clients:
            client.turn()

    @rule(kind=st.sampled_from(KINDS))
    def one_starts(self, kind):
        if len(self.clients) < 4:
            self.clients.append(self.client(kind, len(self.clients)))

    @rule(number=numbers, dies=st.booleans())
    def one_ends(self, number, dies):
        if number < len(self.clients):
            client = self.clients.pop(number)
            if not dies:
                client.leave()

    @rule(ms=st.sampled_from((100, 1_000, 6_000, 21_000)))
    def time_passes(self, ms):
        self.bench.advance(ms)

    @rule()
    def the_server_restarts(self):
        self.bench.restart()
        for client in self.clients:
            client.forget_requests()

    @rule()
    def all_settles(self):
        for _ in range(60):
            self.all_go_on()
            self.a_partition_has_one_owner()
            self.bench.advance(1_000)
            self.a_partition_has_one_owner()
            self.the_epoch_only_grows()
        self.all_go_on()
        owned = sorted(each for client in self.clients for each in client.owned)
        assert owned == (list(range(COUNT)) if self.clients else [])
        kinds = {client.kind == "consumer" for client in self.clients}
        if kinds:
            assert isinstance(self.bench.shard.groups["g"], Group) == (True not in kinds)

    @invariant()
    def a_partition_has_one_owner(self):
        for client in self.clients:
            if client.owned and client.member_id not in self.members:
                client.is_removed = True
        owned = [each for client in self.clients if not client.is_removed for each in client.owned]
        assert len(owned) == len(set(owned))

    @invariant()
    def the_epoch_only_grows(self):
        group = self.bench.shard.groups.get("g")
        if group is None or not group.sessions:
            # An empty group begins anew when a member of the other protocol joins.
            self.epoch = 0
            return
        is_classic = isinstance(group, Group)
        assert (group.generation if is_classic else group.epoch) >= self.epoch
        if not is_classic:
            self.epoch = group.epoch
        elif group.logged is not None:
            # A generation that was never synced is lost with the process, as in Kafka.
            self.epoch = group.logged.value.generation

    @invariant()
    def the_log_tells_everything(self):
        live = self.bench.shard.logged_state()
        for log in (self.bench.log, compact(self.bench.log)):
            shard = Shard(CONFIG)
            for entry in log:
                shard.replay(entry)
            assert shard.logged_state() == live


TestMigrationMachine = MigrationMachine.TestCase
TestMigrationMachine.settings = settings(
    max_examples=examples(60), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
