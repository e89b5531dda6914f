"""Groups of our client and another one, in which the leadership changes hands: the same assignment
from each leader.

Range and round robin order members by their `group.instance.id`, so the same members get the same
partitions whoever computes it. The sticky ones build on what was: there each leader has to keep the
balance, and to move no partition that could have stayed.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest

from interop.conftest import need
from interop.processes import Process
from interop.programs import KOHORT, Client
from interop.roster import named
from interop.targets import Target
from interop.trial import PARTITIONS, Trial

pytestmark = [pytest.mark.interop, pytest.mark.clients]

TrialOn = Callable[[Target], Trial]
Shares: TypeAlias = Mapping[str, frozenset[str]]
OTHERS = ("java", "confluent-kafka", "franz-go")
STICKY = [("java", "sticky"), *((name, "cooperative-sticky") for name in OTHERS)]
"""librdkafka has no eager sticky assignor; members of franz-go's tell its leader nothing of what
they had, so that in a group of their own, too, most of the partitions move.
"""
MORE = 5
"""Partitions of a second topic: with those of the first a number that nothing divides evenly."""


def ours_lead(trial: Trial) -> bool:
    """Whether one of our members made the present assignment: the others do not tell."""
    latest = [
        trial.timeline.began(name)[-1]
        for name in trial.timeline.owned()
        if trial.timeline.began(name)
    ]
    newest = max(event.generation for event in latest)
    return any(event.leads for event in latest if event.generation == newest)


class Mixed:
    """A group of two libraries over two topics."""

    def __init__(self, trial: Trial, assignor: str) -> None:
        self.trial = trial
        self.assignor = assignor
        self.topics = {trial.topic: PARTITIONS, f"{trial.topic}-more": MORE}
        trial.create_topic(f"{trial.topic}-more", MORE)
        self.everything = {
            f"{topic}-{number}" for topic, count in self.topics.items() for number in range(count)
        }

    def join(self, client: Client, name: str, **more: str) -> Process:
        return self.trial.member(client, name, self.assignor, self.topics, **more)

    def shares(self, *members: Process) -> Shares:
        """What each of exactly these members has, once they share everything."""
        names = {member.name for member in members}

        def shared() -> bool:
            owned = self.trial.timeline.owned()
            all_ = [partition for share in owned.values() for partition in share]
            return (
                owned.keys() == names
                and len(all_) == len(self.everything)
                and set(all_) == self.everything
            )

        self.trial.wait_until(shared, f"{sorted(names)} share {sorted(self.topics)}")
        return self.trial.timeline.owned()


def by_role(shares: Shares) -> dict[str, frozenset[str]]:
    """A member that left and came back is `ours` again, whatever its process is called."""
    return {name.partition("-")[0]: share for name, share in shares.items()}


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
@pytest.mark.parametrize("other", [named(name) for name in OTHERS], ids=str)
def test_the_same_assignment_from_each_leader(
    target: Target, trial_on: TrialOn, other: Client, assignor: str
) -> None:
    """Ours leads, then the other, then ours again, always with the same two instances."""
    group = Mixed(trial_on(target), assignor)
    ours, theirs = group.join(KOHORT, "ours", instance="a"), None
    group.shares(ours)
    theirs = group.join(need(other), "theirs", instance="b")
    first = group.shares(ours, theirs)
    assert ours_lead(group.trial)
    group.trial.kill(ours)
    group.shares(theirs)
    ours = group.join(KOHORT, "ours-again", instance="a")
    second = group.shares(ours, theirs)
    assert not ours_lead(group.trial)
    group.trial.kill(theirs)
    group.shares(ours)
    theirs = group.join(other, "theirs-again", instance="b")
    third = group.shares(ours, theirs)
    assert ours_lead(group.trial)
    group.trial.leave(ours, theirs)
    assert by_role(first) == by_role(second) == by_role(third)


def moved(before: Shares, after: Shares) -> set[str]:
    """Partitions that moved between members that were there before and after."""
    staying = before.keys() & after.keys()
    had = {partition: name for name in staying for partition in before[name]}
    return {
        partition for name in after for partition in after[name] if had.get(partition, name) != name
    }


def assert_balanced(shares: Shares) -> None:
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1, shares


@pytest.mark.parametrize(
    ("other", "assignor"),
    [pytest.param(named(name), assignor, id=f"{name}-{assignor}") for name, assignor in STICKY],
)
def test_each_leader_keeps_what_can_stay(
    target: Target, trial_on: TrialOn, other: Client, assignor: str
) -> None:
    """Members go, the leader first each time, until both kinds have led, and others come in their
    place.
    """
    group = Mixed(trial_on(target), assignor)
    need(other)
    members = [group.join(KOHORT, "ours-1")]
    group.shares(*members)
    for client, name in ((other, "theirs-1"), (KOHORT, "ours-2"), (other, "theirs-2")):
        members.append(group.join(client, name))
        group.shares(*members)
    shares, leaders = group.shares(*members), {ours_lead(group.trial)}
    assert_balanced(shares)
    for number in range(3, 9):
        mine = ours_lead(group.trial)
        gone = next(each for each in members if each.name.startswith("ours" if mine else "theirs"))
        members.remove(gone)
        group.trial.leave(gone)
        without = group.shares(*members)
        assert_balanced(without)
        assert moved(shares, without) == set(), f"led by ours: {ours_lead(group.trial)}"
        members.append(
            group.join(KOHORT if mine else other, f"{'ours' if mine else 'theirs'}-{number}")
        )
        shares = group.shares(*members)
        leaders.add(ours_lead(group.trial))
        assert_balanced(shares)
        newest = members[-1].name
        assert moved(without, shares) == shares[newest], f"led by ours: {ours_lead(group.trial)}"
        if number > 4 and leaders == {True, False}:
            break
    assert leaders == {True, False}
    group.trial.leave(*members)
