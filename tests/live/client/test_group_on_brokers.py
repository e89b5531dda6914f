"""One suite for a group's members as processes, against Kohort and Apache Kafka: what goes wrong,
and what the application sees of it.

Every test ends with the judge of `interop.timeline` over all that the members said: every record is
processed, an acknowledged commit is where the next owner starts or further on, nothing is skipped
or comes twice while a partition is owned, and no partition is owned by two members at a time.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from interop.processes import PATIENCE_S, Feed, Process
from interop.programs import BEYOND_PATIENCE_MS, KOHORT, SESSION_MS
from interop.timeline import Began, Ended, Event
from interop.trial import Trial
from kohort.client import End
from kohort.types import TopicPartition
from live.client.app import App, produce
from live.client.brokers import Site
from waiting import until

OUTAGES = pytest.mark.parametrize("outage_s", [12, pytest.param(30, marks=pytest.mark.long)])
"""Seconds: longer than a session, and much longer."""
LONG_MS = 90_000
"""A session that outlives every outage here."""
EAGER_OR_COOPERATIVE = pytest.mark.parametrize(
    "assignor", ["range", pytest.param("cooperative-sticky", marks=pytest.mark.clients)]
)

NewTrial = Callable[..., Trial]


@pytest.fixture
def trial(site: Site, tmp_path: Path) -> Iterator[NewTrial]:
    """Makes trials on the broker; their processes end with the test."""
    made: list[Trial] = []

    def make(name: str = "live", session_ms: int = SESSION_MS) -> Trial:
        directory = tmp_path / name
        directory.mkdir()
        made.append(Trial(site, directory, name, session_ms).__enter__())
        return made[-1]

    yield make
    for each in made:
        each.__exit__(None, None, None)


def finish(trial: Trial, feed: Feed, *members: Process) -> None:
    """The rest is processed, the members leave, and all was right."""
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(*members)
    trial.await_committed(ends)
    trial.assert_right(sent)


def ends_told(trial: Trial, *members: str) -> set[str]:
    return {event.end for member in members for event in trial.timeline.ended(member)}


def generations(trial: Trial, member: str) -> list[int]:
    return [event.generation for event in trial.timeline.began(member)]


def noticed(trial: Trial, *members: str) -> list[Event]:
    """All generation events of these members so far; an outage that they miss adds none."""
    return [
        event
        for event in trial.timeline.events
        if isinstance(event, Began | Ended) and event.member in members
    ]


def owned_by(trial: Trial, member: str) -> frozenset[str]:
    return trial.timeline.owned().get(member, frozenset())


# --- members ---


@EAGER_OR_COOPERATIVE
def test_members_join_leave_and_crash(trial: NewTrial, assignor: str) -> None:
    """Two at once, the leader among them, by `kill -9`, while two others come; then one leaves."""
    group = trial()
    feed = group.feed(KOHORT)
    first = group.member(KOHORT, "first", assignor)
    group.await_balanced(first)
    second, third = (group.member(KOHORT, name, assignor) for name in ("second", "third"))
    group.await_balanced(first, second, third)
    group.kill(first)
    group.kill(second)
    fourth = group.member(KOHORT, "fourth", assignor, session=str(BEYOND_PATIENCE_MS))
    fifth = group.member(KOHORT, "fifth", assignor)
    group.await_balanced(third, fourth, fifth)
    group.leave(fourth)
    group.await_balanced(third, fifth)
    assert ends_told(group, "fourth") <= {"revoked", "closed"}
    assert "closed" in ends_told(group, "fourth")
    assert ends_told(group, "third", "fifth") <= {"revoked"}
    finish(group, feed, third, fifth)


@pytest.mark.clients
def test_a_slow_member_keeps_its_membership_and_gives_way_within_its_drain_timeout(
    trial: NewTrial,
) -> None:
    """One batch takes longer than a session. When another member comes it is waited for so long,
    and no longer.
    """
    group = trial(session_ms=2_000)
    group.produce(KOHORT, [f"early-{number}" for number in range(60)])
    slow = group.member(KOHORT, "slow", "range", work="5", drain="1500")
    group.wait_until(lambda: len(group.timeline.committed()) == 6, "a slow batch of each partition")
    assert len(generations(group, "slow")) == 1
    feed = group.feed(KOHORT)
    group.await_more(1)
    quick = group.member(KOHORT, "quick", "range")
    group.wait_until(lambda: len(owned_by(group, "quick")) == 3, "the quick one has its share")
    group.leave(slow)
    sent = feed.end()
    ends = group.await_all_processed()
    assert ends_told(group, "slow") == {"revoked", "closed"}
    group.leave(quick)
    group.await_committed(ends)
    group.assert_right([*(f"early-{number}" for number in range(60)), *sent])


def test_static_members_restart_without_a_rebalance(trial: NewTrial) -> None:
    """Stopped or killed, and back within the session: nobody notices, and the generation stays."""
    group = trial(session_ms=BEYOND_PATIENCE_MS)
    feed = group.feed(KOHORT)
    first = group.member(KOHORT, "first", "range", instance="one")
    second = group.member(KOHORT, "second", "range", instance="two")
    group.await_balanced(first, second)
    share, generation = owned_by(group, "first"), generations(group, "first")[-1]
    before = noticed(group, "second")
    group.leave(first)
    again = group.member(KOHORT, "again", "range", instance="one")
    group.await_balanced(again, second)
    group.kill(again)
    once_more = group.member(KOHORT, "once-more", "range", instance="one")
    group.await_balanced(once_more, second)
    assert owned_by(group, "once-more") == share
    assert generations(group, "again") == generations(group, "once-more") == [generation]
    assert noticed(group, "second") == before
    finish(group, feed, once_more, second)


# --- the broker ---


@pytest.mark.clients
def test_the_coordinator_restarts(site: Site, trial: NewTrial) -> None:
    """Stopped in good order, then killed: the members keep their generation, and nothing
    acknowledged is lost.
    """
    group = trial(session_ms=LONG_MS)
    feed = group.feed(KOHORT)
    first, second = group.member(KOHORT, "first", "range"), group.member(KOHORT, "second", "range")
    group.await_balanced(first, second)
    before = noticed(group, "first", "second")
    group.survive_restarts(site.restart)
    assert noticed(group, "first", "second") == before, group.tails()
    finish(group, feed, first, second)


@pytest.mark.clients
@OUTAGES
@pytest.mark.parametrize("how", ["away", "frozen"])
def test_the_broker_cannot_be_reached(site: Site, trial: NewTrial, how: str, outage_s: int) -> None:
    """The broker is killed and started again later, or stands still as long. Members with a shorter
    session lose their partitions and rejoin by themselves; members with a longer one notice
    nothing.
    """
    short, long = trial("short"), trial("long", session_ms=LONG_MS)
    groups = {
        group: [group.member(KOHORT, name, "range") for name in ("one", "two")]
        for group in (short, long)
    }
    feeds = {group: group.feed(KOHORT, per_second=40) for group in groups}
    for group, members in groups.items():
        group.await_balanced(*members)
        group.await_commit()
    before = noticed(long, "one", "two")
    if how == "away":
        site.restart(signal.SIGKILL, away_seconds=outage_s)
    else:
        site.freeze(outage_s)
    for group, members in groups.items():
        group.await_balanced(*members)
        group.await_more(50)
    assert ends_told(short, "one", "two") == {"lost"} | (
        ends_told(short, "one", "two") & {"revoked"}
    )
    assert noticed(long, "one", "two") == before, long.tails()
    for group, members in groups.items():
        finish(group, feeds[group], *members)


@pytest.mark.clients
@OUTAGES
def test_two_of_three_cannot_reach_the_broker(site: Site, trial: NewTrial, outage_s: int) -> None:
    """The connections of one member break; those of another stay open and silent, and its requests
    arrive afterwards. Both release their partitions before the third member gets them, and rejoin
    by themselves, in an eager and in a cooperative group.
    """
    groups = {trial(assignor): assignor for assignor in ("range", "cooperative-sticky")}
    feeds = [group.feed(KOHORT, per_second=40) for group in groups]
    members = [
        [group.member(KOHORT, name, assignor) for name in ("broken", "silent", "well")]
        for group, assignor in groups.items()
    ]
    for group, each in zip(groups, members, strict=True):
        group.await_balanced(*each)
        group.await_commit()
    with site.door.shut(broken="reset", silent="silent"):
        until = time.monotonic() + outage_s
        for group, each in zip(groups, members, strict=True):
            group.await_balanced(each[2])
        time.sleep(max(until - time.monotonic(), 0))
    for group, feed, each in zip(groups, feeds, members, strict=True):
        group.await_balanced(*each)
        assert "lost" in ends_told(group, "broken")
        assert "lost" in ends_told(group, "silent")
        assert "lost" not in ends_told(group, "well")
        finish(group, feed, *each)


# --- topics ---


async def test_topics_grow_and_are_deleted_and_made_anew(site: Site) -> None:
    """The application is told of what it loses, works on new partitions, and reads the new topic
    from its beginning; from the topic beside it nothing is lost, or comes twice.
    """
    steady, changing, group = (f"{name}-{uuid4().hex}" for name in ("steady", "changing", "group"))

    def has(members: list[App], count: int) -> Callable[[], bool]:
        return lambda: (
            sorted(each for app in members for each in app.assignment if each.topic == changing)
            == [TopicPartition(changing, number) for number in range(count)]
        )

    def got(members: list[App], topic: str, count: int) -> Callable[[], bool]:
        return lambda: sum(len(app.values(topic)) for app in members) == count

    await site.administer(lambda admin: admin.create_topic(steady, partitions=3))
    await site.administer(lambda admin: admin.create_topic(changing, partitions=2))
    # Each mostly sees for itself what becomes of the topic, before a heartbeat tells it that the
    # other has seen it.
    members = [
        App(site.address, group, topics=[steady, changing], heartbeat_interval_ms=3_000)
        for _ in range(2)
    ]
    await until(has(members, 2))
    await produce(site.address, 100, steady)
    await site.administer(lambda admin: admin.create_partitions(changing, 5))
    await until(has(members, 5))
    await produce(site.address, 100, steady)
    await produce(site.address, 50, changing)
    await until(got(members, changing, 50))
    await site.administer(lambda admin: admin.delete_topic(changing))
    await until(has(members, 0))

    def ends(number: int) -> set[End]:
        gone = TopicPartition(changing, number)
        return {end for app in members for partition, end in app.ends if partition == gone}

    # Lost by the member that saw the deletion, revoked by one that was told to join before it did.
    await until(
        lambda: all(ends(each) & {End.LOST, End.REVOKED} for each in range(5)), seconds=PATIENCE_S
    )
    assert any(End.LOST in ends(each) for each in range(5))
    await site.administer(lambda admin: admin.create_topic(changing, partitions=3))
    await until(has(members, 3))
    await produce(site.address, 100, steady)
    await produce(site.address, 50, changing)
    await until(got(members, changing, 100))
    await until(got(members, steady, 300))
    await asyncio.gather(*(app.stop() for app in members))
    assert sorted(value for app in members for value in app.values(steady)) == sorted(
        [*range(100)] * 3
    )
    assert sorted(value for app in members for value in app.values(changing)) == sorted(
        [*range(50)] * 2
    )
