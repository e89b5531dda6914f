"""`kohort groups rebalances --log`: what librdkafka's members did, read from the log of Kohort and
of an Apache Kafka.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from cli.running import runner
from interop.targets import Target, each_server
from interop.trial import PARTITIONS, Trial

pytestmark = [pytest.mark.interop, pytest.mark.clients]


def consumer(trial: Trial, name: str, protocol: str) -> Consumer:
    started = Consumer(
        {
            "bootstrap.servers": trial.target.address,
            "group.id": trial.group,
            "client.id": name,
            "group.protocol": protocol,
        }
    )
    started.subscribe([trial.topic])
    return started


def await_balanced(*consumers: Consumer) -> None:
    """Poll until each has its share of all partitions."""
    deadline = time.monotonic() + 60
    while [len(each.assignment()) for each in consumers] != [PARTITIONS // len(consumers)] * len(
        consumers
    ):
        assert time.monotonic() < deadline
        for each in consumers:
            each.poll(0.05)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@each_server
def test_generations_are_read_back(
    restartable: Target,
    protocol: str,
    trial_on: Callable[[Target], Trial],
    capsys: pytest.CaptureFixture[str],
) -> None:
    trial = trial_on(restartable)
    first = consumer(trial, "first", protocol)
    await_balanced(first)
    second = consumer(trial, "second", protocol)
    await_balanced(first, second)
    first.close()
    await_balanced(second)
    second.close()
    run = runner(capsys, "-b", restartable.address)
    words = ("groups", "rebalances", trial.group, "--log")
    found = run(*words, "--output", "json").json
    assert {each["type"] for each in found} == {protocol}
    assert names(found, "members_joined") == ["first", "second"]
    assert names(found, "members_gone") == ["first", "second"]
    assert (found[-1]["outcome"], found[-1]["members"]) == ("empty", [])
    stable = [each for each in found if each["outcome"] == "stable"]
    assert [len(each["members"]) for each in stable if each["members_joined"]] == [1, 2]
    (alone,) = stable[-1]["partitions_gained"]
    assert len(alone["partitions"][0]["partitions"]) == PARTITIONS // 2
    assert alone["partitions"][0]["topic"] == trial.topic
    shown = run(*words)
    assert (shown.exit_code, len(shown.output.splitlines())) == (0, len(found) + 1)
    misspelt = run("groups", "rebalances", f"{trial.group}s", "--log")
    assert (misspelt.exit_code, f"did you mean {trial.group}?" in misspelt.stderr) == (1, True)


def names(generations: list[dict[str, Any]], field: str) -> list[str]:
    return [member["client_id"] for each in generations for member in each[field]]
