"""Our client in the consumer protocol (KIP-848) on Apache Kafka, alone and with other clients."""

import signal
from collections.abc import Callable, Iterator

import pytest

from interop.conftest import need
from interop.programs import JAVA, KOHORT, Client
from interop.roster import named
from interop.targets import ApacheKafka, Target, ready_kafka
from interop.trial import Trial
from peers import kafka

pytestmark = [pytest.mark.interop, pytest.mark.clients]

TrialOn = Callable[[Target], Trial]
CONSUMER = {"protocol": "consumer"}
CONFLUENT = named("confluent-kafka")


@pytest.fixture(scope="module")
def node() -> Iterator[ApacheKafka]:
    if reason := kafka.missing_tools():
        pytest.skip(reason)
    node = ready_kafka(kafka.free_port(1))
    yield node
    node.stop()


@pytest.mark.parametrize(
    ("other", "options"),
    [
        pytest.param(KOHORT, CONSUMER, id="kohort"),
        pytest.param(JAVA, CONSUMER, id="java"),
        pytest.param(CONFLUENT, CONSUMER, id="confluent-kafka"),
        pytest.param(JAVA, {}, id="java-classic"),
        pytest.param(CONFLUENT, {}, id="confluent-kafka-classic"),
        pytest.param(KOHORT, {}, id="kohort-classic"),
    ],
)
def test_partitions_are_handed_over_between_members(
    other: Client, options: dict[str, str], node: ApacheKafka, trial_on: TrialOn
) -> None:
    """No record is lost, and none is processed twice while nobody dies."""
    trial = trial_on(node)
    feed = trial.feed(KOHORT)
    first = trial.member(need(other), "first", **options)
    trial.await_balanced(first)
    second = trial.member(KOHORT, "second", **CONSUMER)
    trial.await_balanced(first, second)
    third = trial.member(KOHORT, "third", **CONSUMER)
    trial.await_balanced(first, second, third)
    trial.leave(second)
    trial.await_balanced(first, third)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(first, third)
    trial.await_committed(ends)
    trial.assert_right(sent)


def test_members_survive_restarts_of_the_broker(node: ApacheKafka, trial_on: TrialOn) -> None:
    trial = trial_on(node)
    feed = trial.feed(KOHORT)
    members = [trial.member(KOHORT, name, **CONSUMER) for name in ("first", "second")]
    trial.await_balanced(*members)

    def restart(how: signal.Signals) -> None:
        node.restart(how)

    trial.survive_restarts(restart)
    trial.await_balanced(*members)
    sent = feed.end()
    ends = trial.await_all_processed()
    trial.leave(*members)
    trial.await_committed(ends)
    trial.assert_right(sent)


def test_a_static_member_returns_to_its_partitions(node: ApacheKafka, trial_on: TrialOn) -> None:
    trial = trial_on(node)
    first = trial.member(KOHORT, "first", instance="one", **CONSUMER)
    second = trial.member(KOHORT, "second", instance="two", **CONSUMER)
    trial.await_balanced(first, second)
    share = trial.timeline.owned()["first"]
    trial.leave(first)
    again = trial.member(KOHORT, "again", instance="one", **CONSUMER)
    trial.await_balanced(again, second)
    assert trial.timeline.owned()["again"] == share
    trial.leave(again, second)
