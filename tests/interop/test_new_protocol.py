"""Groups of the consumer protocol (KIP-848) with the clients that have it."""

from collections.abc import Callable, Sequence

import pytest

from interop.conftest import need
from interop.programs import Client
from interop.roster import named
from interop.targets import Target
from interop.trial import Trial

pytestmark = [pytest.mark.interop, pytest.mark.clients]

TrialOn = Callable[[Target], Trial]
CLIENTS = ("java", "confluent-kafka", "kohort", "franz-go", "platformatic")


@pytest.mark.parametrize("client", [pytest.param(named(name), id=name) for name in CLIENTS])
def test_every_record_is_processed_across_rebalances(
    client: Client, target: Target, trial_on: TrialOn
) -> None:
    """Members come and one leaves; all that was produced meanwhile is processed and committed."""
    need(client)
    trial = trial_on(target)
    feed = trial.feed(client)
    first = trial.member(client, "first", protocol="consumer")
    trial.await_balanced(first)
    second = trial.member(client, "second", protocol="consumer")
    trial.await_balanced(first, second)
    assert trial.is_of_type("consumer")
    trial.leave(first)
    trial.await_balanced(second)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(second)
    trial.await_committed(ends)
    trial.assert_right(sent)


@pytest.mark.parametrize("names", [pytest.param(CLIENTS, id=", ".join(CLIENTS))])
def test_members_of_different_clients_share_a_group(
    names: Sequence[str], target: Target, trial_on: TrialOn
) -> None:
    """Each revokes what the others get."""
    clients = [named(name) for name in names]
    for client in clients:
        need(client)
    trial = trial_on(target)
    feed = trial.feed(clients[1])
    members = [trial.member(client, client.name, protocol="consumer") for client in clients]
    trial.await_balanced(*members)
    sent = feed.end()
    ends = trial.await_all_processed()
    for member in members:
        trial.leave(member)
    trial.await_committed(ends)
    trial.assert_right(sent)
