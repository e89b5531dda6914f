"""One group of clients of both protocols, which changes its type under load and back."""

import signal
from collections.abc import Callable

import pytest

from interop.conftest import need
from interop.processes import Process
from interop.roster import named
from interop.targets import Target
from interop.trial import Trial

pytestmark = [pytest.mark.interop, pytest.mark.clients, pytest.mark.timeout(400)]

TrialOn = Callable[[Target], Trial]
CLASSIC = ("java", "confluent-kafka", "franz-go")
CONSUMERS = ("java", "confluent-kafka")


def start(trial: Trial, assignor: str, *, consumers: bool) -> list[Process]:
    """Members of each client library, all of one protocol."""
    if consumers:
        return [trial.member(named(each), f"{each}-new", protocol="consumer") for each in CONSUMERS]
    return [trial.member(named(each), f"{each}-old", assignor) for each in CLASSIC]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_clients_of_both_protocols_share_a_group(
    restartable: Target, trial_on: TrialOn, assignor: str, killed: bool
) -> None:
    """Consumers upgrade the group of classic members; when they leave, it is downgraded.

    No record is lost, and no partition has two owners, also when the server is killed meanwhile.
    """
    for client in CLASSIC:
        need(named(client))
    trial = trial_on(restartable)
    trial.session_ms = 30_000  # members must outlive the restart of the server
    feed = trial.feed(named("confluent-kafka"))
    classic = start(trial, assignor, consumers=False)
    trial.await_balanced(*classic)
    consumers = start(trial, assignor, consumers=True)
    if killed:
        trial.await_more(300)
        restartable.restart(signal.SIGKILL)
    trial.await_balanced(*classic, *consumers)
    trial.leave(*consumers[:1])
    trial.await_balanced(*classic, *consumers[1:])
    trial.leave(*consumers[1:])
    if killed:
        restartable.restart(signal.SIGKILL)
    trial.await_balanced(*classic)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(*classic)
    trial.await_committed(ends)
    trial.assert_right(sent)


def test_all_members_move_to_the_consumer_protocol(restartable: Target, trial_on: TrialOn) -> None:
    """One classic member after the other is replaced by a consumer, as in a rolling restart."""
    for client in CONSUMERS:
        need(named(client))
    trial = trial_on(restartable)
    feed = trial.feed(named("confluent-kafka"))
    members = [trial.member(named(each), f"{each}-old", "range") for each in CONSUMERS]
    trial.await_balanced(*members)
    for client in CONSUMERS:
        trial.leave(members.pop(0))
        members.append(trial.member(named(client), f"{client}-new", protocol="consumer"))
        trial.await_balanced(*members)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(*members)
    trial.await_committed(ends)
    trial.assert_right(sent)
