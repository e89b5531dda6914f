"""A group of each client: it rebalances, commits, and goes on after its server was restarted."""

from collections.abc import Callable

import pytest

from interop.conftest import need
from interop.processes import Process
from interop.programs import BEYOND_PATIENCE_MS, Client
from interop.roster import each_client, each_client_and_assignor, named
from interop.targets import Target
from interop.trial import Trial

pytestmark = pytest.mark.interop

TrialOn = Callable[[Target], Trial]
RANGERS = ("java", "confluent-kafka", "franz-go", "kafka-python", "sarama", "aiokafka")
"""Not kafka-go: its subscriptions claim version 1 without that version's last field, at which Java
as leader fails.
"""
WITH_OURS = ("kohort", "java", "confluent-kafka", "franz-go", "sarama")
COOPERATIVE = ("java", "kohort", "confluent-kafka", "franz-go")


@each_client_and_assignor
def test_every_record_is_processed_across_rebalances(
    client: Client, assignor: str, target: Target, trial_on: TrialOn
) -> None:
    """Members come, one leaves, one is killed; all that was produced meanwhile is processed and
    committed.
    """
    need(client)
    trial = trial_on(target)
    feed = trial.feed(client)
    first = trial.member(client, "first", assignor)
    second = trial.member(client, "second", assignor, session=str(BEYOND_PATIENCE_MS))
    trial.await_balanced(first, second)
    third = trial.member(client, "third", assignor)
    trial.await_balanced(first, second, third)
    trial.leave(second)
    trial.await_balanced(first, third)
    trial.kill(first)
    trial.await_balanced(third)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(third)
    trial.await_committed(ends)
    trial.assert_right(sent)


@each_client
def test_resumes_after_a_restart(client: Client, restartable: Target, trial_on: TrialOn) -> None:
    """The server is stopped in good order, then killed; no acknowledged commit or record is lost or
    skipped.
    """
    need(client)
    trial = trial_on(restartable)
    if client.keeps_its_id:
        trial.session_ms = 30_000  # members must outlive the restart of a slow server too
    feed = trial.feed(client.stand_in or client)
    first, second = trial.member(client, "first"), trial.member(client, "second")
    trial.await_balanced(first, second)
    trial.survive_restarts(restartable.restart)
    sent = feed.end()
    ends = trial.await_all_processed()
    # before they leave: the restart may have them rebalance, when no last commit is taken
    trial.await_committed(ends)
    trial.leave(first, second)
    late = [f"late-{number}" for number in range(50)]
    trial.produce(client, late)
    successor = trial.member(client, "successor")
    ends = trial.await_all_processed()
    trial.leave(successor)
    trial.await_committed(ends)
    trial.assert_right([*sent, *late])


@pytest.mark.clients
@pytest.mark.parametrize(
    ("assignor", "names"),
    [("range", RANGERS), ("range", WITH_OURS), ("cooperative-sticky", COOPERATIVE)],
    ids=["range", "range-with-ours", "cooperative-sticky"],
)
def test_clients_of_all_kinds_share_a_group(
    target: Target,
    trial_on: TrialOn,
    able_clients: tuple[Client, ...],
    assignor: str,
    names: tuple[str, ...],
) -> None:
    """Members of many libraries divide one topic by an assignor that all have, whoever of them
    leads.

    Whoever came first leads; each time the leader goes, another library assigns.
    """
    able = [client for client in map(named, names) if client in able_clients]
    if len(able) < 3:
        pytest.skip("fewer than three of the clients can run here")
    trial = trial_on(target)
    feed = trial.feed(able[0])
    members: list[Process] = []
    for client in able:
        members.append(trial.member(client, str(client), assignor=assignor))
        if len(members) in (1, len(able)):
            trial.await_balanced(*members)
    while len(members) > 1:
        go = trial.kill if len(members) % 2 else trial.leave
        go(members.pop(0))
        trial.await_balanced(*members)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(*members)
    trial.await_committed(ends)
    trial.assert_right(sent)
