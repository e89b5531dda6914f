"""A group of a streaming query and a plain member, of our client, librdkafka's or Java's:
partitions go both ways.
"""

from itertools import count

import pytest

from interop.processes import PATIENCE_S
from interop.programs import SESSION_MS
from interop.roster import named
from interop.timeline import Records
from interop.trial import PARTITIONS, Trial
from spark.streams import Stream, wait_for

pytestmark = pytest.mark.clients

_numbers = count()
HALF = PARTITIONS // 2
MORE = 60
"""Records that go by between two events."""


def with_clients(*pairs, rare=()):
    """Each a kind of server and the name of a client; `rare`: more of them, for the long run."""
    both = [
        pytest.param(
            kind,
            client,
            id=f"{client}-{kind}",
            marks=pytest.mark.long if (kind, client) in rare else (),
        )
        for kind, client in (*pairs, *rare)
    ]
    return pytest.mark.parametrize(("topics", "client"), both, indirect=True)


@pytest.fixture
def client(request):
    found = named(request.param)
    if reason := found.missing():
        pytest.skip(f"{found}: {reason}")
    return found


@pytest.fixture
def mixed(session, topics, tmp_path):
    with Trial(topics, tmp_path, f"mixed-{next(_numbers)}") as trial:
        yield Mixed(session, topics, trial, tmp_path)
        for query in session.streams.active:
            query.stop()


class Mixed:
    """The group, its query, and what both kinds of members made of the topic."""

    def __init__(self, session, topics, trial, directory):
        self.topics, self.trial = topics, trial
        self.reading = Stream(
            session, topics.address, directory / "query", subscribe=trial.topic,
            group__id=trial.group,
            startingOffsets="earliest", kafka__heartbeat__interval__ms="500",
            kafka__session__timeout__ms=str(SESSION_MS),
        )  # fmt: skip

    def start_query(self):
        self.query = self.reading.start(processingTime="100 milliseconds")

    def await_shares(self, *sizes, within_s=PATIENCE_S):
        wait_for(
            lambda: sorted(map(len, self.topics.members(self.trial.group))) == [*sizes],
            f"{sizes}",
            within_s=within_s,
        )
        before = sum(self.committed().values())
        wait_for(
            lambda: sum(self.committed().values()) >= before + MORE,
            f"{MORE} more records committed",
        )

    def stop_query(self):
        """In the middle of things; where records may come twice from."""
        before = self.committed()
        self.query.stop()
        return before

    def await_all(self):
        """Until everything is committed; the topic's end offsets."""
        ends = self.trial.ends()
        wait_for(lambda: self.committed() == ends, f"commits of {ends}")
        self.query.stop()
        return ends

    def committed(self):
        found = self.topics.committed(self.trial.group).get(self.trial.topic, {})
        return {
            f"{self.trial.topic}-{partition}": offset
            for partition, offset in found.items()
            if offset
        }

    def judge(self, sent, in_doubt):
        """Nothing is lost; each has its records once, and both have the same ones only from
        `in_doubt` on.
        """
        ours, theirs = list(self.ours()), list(self.theirs())
        assert sorted(value for _, _, value in {*ours, *theirs}) == sorted(sent)
        assert len(set(ours)) == len(ours)
        assert len(set(theirs)) == len(theirs)
        assert all(
            offset >= in_doubt.get(partition, 0) for partition, offset, _ in {*ours} & {*theirs}
        )
        return ours, theirs

    def theirs(self):
        """(partition, offset, value) of all that plain members processed."""
        for event in self.trial.timeline.events:
            if isinstance(event, Records):
                for offset, value in zip(event.offsets, event.values, strict=True):
                    yield event.partition, offset, value

    def ours(self):
        """The same of the query's table."""
        for row in self.reading.rows():
            yield f"{row.topic}-{row.partition}", row.offset, bytes(row.value).decode()


@with_clients(
    ("kohort", "kohort"), ("kohort", "java"), ("kafka", "kohort"),
    # The first is in the next test, the server and client of the second in others.
    rare=(("kohort", "confluent-kafka"), ("kafka", "confluent-kafka")),
)  # fmt: skip
def test_partitions_go_to_and_fro_and_only_a_query_that_is_stopped_repeats_its_last_micro_batch(
    mixed, client
):
    trial = mixed.trial
    feed = trial.feed(named("confluent-kafka"))
    mixed.start_query()
    mixed.await_shares(PARTITIONS)
    plain = trial.member(client, "plain", assignor="range")
    mixed.await_shares(HALF, HALF)
    in_doubt = mixed.stop_query()
    mixed.await_shares(PARTITIONS)
    mixed.start_query()
    mixed.await_shares(HALF, HALF)
    trial.leave(plain)
    mixed.await_shares(PARTITIONS)
    sent = feed.end()
    mixed.await_all()
    ours, theirs = mixed.judge(sent, in_doubt)
    assert min(len(ours), len(theirs)) > MORE, "both had a part in it"


@with_clients(("kohort", "confluent-kafka"), ("kafka", "kohort"))
def test_a_plain_member_that_is_killed_repeats_only_what_it_had_not_committed(mixed, client):
    trial = mixed.trial
    feed = trial.feed(named("confluent-kafka"))
    mixed.start_query()
    plain = trial.member(client, "plain", assignor="range")
    mixed.await_shares(HALF, HALF)
    trial.kill(plain)
    told = trial.timeline.committed()
    mixed.await_shares(PARTITIONS, within_s=SESSION_MS / 1000 + PATIENCE_S)
    sent = feed.end()
    mixed.await_all()
    mixed.judge(sent, told)
