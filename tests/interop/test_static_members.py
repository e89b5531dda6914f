"""Static members (KIP-345), with Java's client and with ours."""

import re
from collections.abc import Callable

import pytest

from interop.conftest import need
from interop.processes import PATIENCE_S
from interop.programs import BEYOND_PATIENCE_MS, JAVA, KOHORT, Client
from interop.targets import Target
from interop.timeline import Owns
from interop.trial import Trial

pytestmark = [pytest.mark.interop, pytest.mark.clients]

TrialOn = Callable[[Target], Trial]


@pytest.fixture(params=[JAVA, KOHORT], ids=str)
def client(request: pytest.FixtureRequest) -> Client:
    return need(request.param)


@pytest.fixture
def trial(client: Client, target: Target, trial_on: TrialOn) -> Trial:
    return trial_on(target)


def owned_by(trial: Trial, member: str) -> frozenset[str]:
    return trial.timeline.owned().get(member, frozenset())


def assignments_told(trial: Trial, member: str) -> int:
    return sum(
        isinstance(event, Owns) and event.member == member for event in trial.timeline.events
    )


def test_static_members_come_back_to_what_they_owned(trial: Trial, client: Client) -> None:
    """Stopped or killed, a static member takes up its partitions again and nobody else notices."""
    trial.session_ms = BEYOND_PATIENCE_MS
    feed = trial.feed(client)
    first, second = (
        trial.member(client, "first", "range", instance="one"),
        trial.member(client, "second", "range", instance="two"),
    )
    trial.await_balanced(first, second)
    share, told = owned_by(trial, "first"), assignments_told(trial, "second")
    trial.leave(first)
    again = trial.member(client, "first-again", "range", instance="one")
    trial.await_balanced(again, second)
    trial.kill(again)
    once_more = trial.member(client, "first-once-more", "range", instance="one")
    trial.await_balanced(once_more, second)
    assert owned_by(trial, "first-once-more") == share
    assert assignments_told(trial, "second") == told
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(once_more, second)
    trial.await_committed(ends)
    trial.assert_right(sent)


def test_a_static_member_that_stays_away_is_replaced(trial: Trial, client: Client) -> None:
    """It does not leave by going; its session ends its membership."""
    feed = trial.feed(client)
    first, second = (
        trial.member(client, "first", "range", instance="one"),
        trial.member(client, "second", "range", instance="two"),
    )
    trial.await_balanced(first, second)
    trial.leave(first)
    trial.await_balanced(second)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(second)
    trial.await_committed(ends)
    trial.assert_right(sent)


def test_the_first_of_two_static_members_with_one_id_is_fenced(
    trial: Trial, client: Client
) -> None:
    elder = trial.member(client, "elder", "range", instance="one")
    trial.await_balanced(elder)
    younger = trial.member(client, "younger", "range", instance="one")
    assert elder.wait(PATIENCE_S) == 1
    assert re.search("FencedInstanceIdException|FENCED_INSTANCE_ID", elder.tail())
    trial.timeline.wait_until(
        lambda: bool(owned_by(trial, "younger")), "the younger owns the topic", PATIENCE_S
    )
    trial.leave(younger)
