"""A consumer group under members that come, go, lose responses and change their minds.

- no partition is owned by two members of the group;
- what a member owns, the group knows as its own;
- an epoch of the group only grows;
- a known hash of the topics is that of what the members subscribe to;
- live state == replay(log) == replay(compact(log));
- members that heartbeat reach the target, and then have every partition of their topics.
"""

from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effort import examples
from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.subscribed_metadata import metadata_hash
from kohort.coordinator.consumer.target import MAX_IMMEDIATE_SIZE
from kohort.coordinator.shard import Shard
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.testing.bench import Bench
from kohort.util.regular_expression import RegularExpression

NAMES = ("t", "u", "v")
CONFIG = GroupCoordinatorConfig(
    consumer=ConsumerGroupConfig(assignment_interval_ms=1_000), consumer_max_size=6
)
members = st.integers(0, 5)
subscriptions = st.sets(st.sampled_from(NAMES)).map(sorted)
regexes = st.sampled_from(["", "[tu]", "v.*", "x"])


class Client:
    """What a member knows of itself."""

    def __init__(self, number):
        self.number = number
        self.incarnation = 0
        self.instance_id = f"i{number}" if number % 3 == 0 else None
        self.topics, self.regex = ["t"], ""
        self.lose()

    def lose(self):
        self.epoch, self.owned, self.told, self.is_full = 0, set(), None, True

    @property
    def member_id(self):
        return f"m{self.number}-{self.incarnation}"


def partitions(assignment):
    return {(topic, each) for topic, some in assignment.items() for each in some}


def by_topic(owned):
    found = {}
    for topic, partition in sorted(owned):
        found[topic] = (*found.get(topic, ()), partition)
    return found


def compact(log):
    last = {(type(entry), entry.key): at for at, entry in enumerate(log)}
    return [entry for at, entry in enumerate(log) if last[type(entry), entry.key] == at]


class ConsumerGroupMachine(RuleBasedStateMachine):
    BENCH = Bench
    PARTITIONS = 2
    """Of a topic at first."""

    def __init__(self):
        super().__init__()
        self.counts = dict.fromkeys(NAMES, self.PARTITIONS)
        self.ids = {name: UUID(int=number) for number, name in enumerate(NAMES, start=1)}
        self.version = 1
        self.bench = self.BENCH(CONFIG, topics=self.topics())
        self.clients = [Client(number) for number in range(6)]
        self.group_epoch = 0
        self.target_epoch = 0

    def topics(self):
        images = (TopicImage(name, self.ids[name], count) for name, count in self.counts.items())
        return FixedTopics(images, self.version)

    @property
    def group(self):
        group = self.bench.shard.groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    # --- members ---

    def heartbeat(self, client, *, answered=True, acknowledges=False, epoch=None):
        """One heartbeat, and what the client makes of the response."""
        full = client.is_full or client.epoch == 0
        options = {}
        if full:
            options = {
                "topics": client.topics,
                "regex": client.regex,
                "rebalance_timeout_ms": 20_000,
            }
        if client.epoch == 0:
            client.owned = set()
        owned = by_topic(client.owned) if full or acknowledges else None
        call = self.bench.consumer_heartbeat(
            "g",
            client.member_id,
            client.epoch if epoch is None else epoch,
            instance_id=client.instance_id,
            owned=owned,
            **options,
        )
        if answered:
            self.learn(client, call.response)
        else:
            client.is_full = True
        return call

    def learn(self, client, response):
        if response.error:
            if response.error.name in ("unknown_member_id", "fenced_member_epoch"):
                client.lose()
            return
        client.epoch, client.is_full = response.member_epoch, False
        if response.assignment is not None:
            client.told = partitions(response.assignment)

    def reconcile(self, client):
        """Revoke and take what the client was told last, and acknowledge it."""
        if client.told is not None:
            client.owned, client.told = client.told, None
            self.heartbeat(client, acknowledges=True)

    @rule(number=members, answered=st.booleans())
    def beats(self, number, answered):
        self.heartbeat(self.clients[number], answered=answered)

    @rule(number=members)
    def acknowledges(self, number):
        self.reconcile(self.clients[number])

    @rule(number=members)
    def revokes_without_a_word(self, number):
        client = self.clients[number]
        if client.told is not None:
            client.owned &= client.told

    @rule(number=members, topics=subscriptions, regex=regexes)
    def subscribes(self, number, topics, regex):
        client = self.clients[number]
        client.topics, client.regex, client.is_full = topics, regex, True
        self.heartbeat(client)

    @rule(number=members)
    def leaves(self, number):
        client = self.clients[number]
        if client.epoch > 0:
            self.bench.consumer_heartbeat("g", client.member_id, -1, instance_id=client.instance_id)
        client.lose()

    @rule(number=members, same_id=st.booleans())
    def restarts(self, number, same_id):
        """A static member leaves for a while; another just begins again."""
        client = self.clients[number]
        if client.epoch > 0 and client.instance_id is not None:
            self.bench.consumer_heartbeat("g", client.member_id, -2, instance_id=client.instance_id)
        client.lose()
        client.incarnation += not same_id

    # --- the rest of the world ---

    @rule()
    def the_background_works(self):
        self.bench.do_jobs()

    @rule(ms=st.sampled_from([500, 1_000, 12_000, 46_000]))
    def time_passes(self, ms):
        self.bench.advance(ms)

    @rule(ms=st.sampled_from([-86_400_000, 86_400_000]))
    def the_wall_clock_jumps(self, ms):
        self.bench.set_ahead(ms)

    @rule()
    def the_server_restarts(self):
        self.bench.restart()

    @rule(name=st.sampled_from(NAMES))
    def a_topic_grows(self, name):
        if name in self.counts and self.counts[name] < self.PARTITIONS + 3:
            self.change_topics(name, self.counts[name] + 1)

    @rule(name=st.sampled_from(NAMES))
    def a_topic_is_deleted_or_made_again(self, name):
        if name in self.counts:
            self.change_topics(name, None)
        else:
            self.ids[name] = UUID(int=self.ids[name].int + 16)
            self.change_topics(name, self.PARTITIONS)

    def change_topics(self, name, count):
        self.version += 1
        self.counts.pop(name) if count is None else self.counts.update({name: count})
        self.bench.topics = self.topics()

    @precondition(lambda self: self.group is not None and self.group.members)
    @rule()
    def all_settles(self):
        """Members that do what they are told reach the target."""
        for _ in range(12):
            for client in self.clients:
                if client.epoch > 0:
                    self.heartbeat(client)
                    self.reconcile(client)
            self.bench.do_jobs()
            self.bench.advance(5_500)
        live = [client for client in self.clients if client.epoch > 0]
        if not live:
            return
        group = self.group
        waits_for_others = set(group.members) - {client.member_id for client in live}
        if waits_for_others:
            return
        assert group.state == "Stable"
        wanted = set()
        for client in live:
            assert client.epoch == group.target_epoch
            target = partitions(group.targets.get(client.member_id, {}))
            assert client.owned == {each for each in target if self.exists(each)}
            matched = RegularExpression(client.regex).matches if client.regex else (lambda _: False)
            wanted |= {name for name in self.counts if name in client.topics or matched(name)}
        owned = [each for client in live for each in client.owned]
        assert sorted(owned) == sorted(
            (self.ids[name], partition) for name in wanted for partition in range(self.counts[name])
        )

    def exists(self, partition):
        topic, number = partition
        return any(
            self.ids[name] == topic and number < count for name, count in self.counts.items()
        )

    # --- what always holds ---

    @invariant()
    def a_partition_has_one_owner(self):
        if self.group is None:
            return
        owners = {}
        for client in self.clients:
            member = self.group.members.get(client.member_id)
            if member is None or client.epoch == 0 or member.current.epoch < 0:
                continue
            for partition in client.owned:
                assert owners.setdefault(partition, client) is client
                assert self.group.owner(*partition) == client.member_id

    @invariant()
    def the_hash_is_that_of_what_members_subscribe_to(self):
        if self.group is not None:
            topics = self.bench.topics
            current = self.group.current_hash(topics.version)
            assert current in (None, metadata_hash(self.group.subscribed_topics(), topics))

    @invariant()
    def the_epoch_only_grows(self):
        if self.group is not None:
            assert self.group.epoch >= self.group_epoch
            self.group_epoch = self.group.epoch

    @invariant()
    def the_assignment_epoch_follows_it(self):
        if self.group is not None:
            assert self.target_epoch <= self.group.target_epoch <= self.group.epoch
            self.target_epoch = self.group.target_epoch
            assert self.group.members or self.target_epoch == self.group.epoch

    @invariant()
    def the_log_tells_everything(self):
        live = self.bench.shard.logged_state()
        for log in (self.bench.log, compact(self.bench.log)):
            shard = Shard(CONFIG)
            for entry in log:
                shard.replay(entry)
            assert shard.logged_state() == live


class LargeConsumerGroupMachine(ConsumerGroupMachine):
    PARTITIONS = MAX_IMMEDIATE_SIZE
    """Targets are computed in the background."""


TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
TestConsumerGroupMachine.settings = settings(
    max_examples=examples(60), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestLargeConsumerGroupMachine = LargeConsumerGroupMachine.TestCase
TestLargeConsumerGroupMachine.settings = settings(
    max_examples=examples(15), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
