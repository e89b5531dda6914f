"""What one client writes, compressed in any way, every client reads."""

from collections.abc import Callable

import pytest

from interop.conftest import need
from interop.processes import finish, write_lines
from interop.programs import CLIENTS, CODECS, Client
from interop.targets import Target
from interop.trial import Trial

pytestmark = [pytest.mark.interop, pytest.mark.timeout(90)]

RECORDS = 20
TEXT = "the quick brown fox jumps over the lazy dog; " * 20
TOPIC = "codec-{}"


def values(writer: Client, codec: str) -> list[str]:
    """About 1 kB each, so that a batch is worth compressing."""
    return [f"{writer} {codec} {number} {TEXT}" for number in range(RECORDS)]


@pytest.fixture(scope="module")
def written(target: Target, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The values in each codec's topic, written by every client that is here."""
    trial = Trial(target, tmp_path_factory.mktemp("codecs"), "codecs")
    expected: dict[str, set[str]] = {}
    with trial:
        for codec in CODECS:
            trial.create_topic(TOPIC.format(codec), 1)
        for client in CLIENTS:
            if client.missing() is None:
                write_all(trial, client, expected)
    return expected


def write_all(trial: Trial, client: Client, expected: dict[str, set[str]]) -> None:
    """One producer process per codec, all at once."""
    producers = {codec: trial.producer(client, codec, TOPIC.format(codec)) for codec in client.codecs}
    for codec, producer in producers.items():
        write_lines(producer, ((f"key-{number}", value) for number, value in enumerate(values(client, codec))))
    for codec, producer in producers.items():
        finish(producer)
        expected.setdefault(TOPIC.format(codec), set()).update(values(client, codec))


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_reads_what_every_client_wrote(
    client: Client, target: Target, trial_on: Callable[[Target], Trial], written: dict[str, set[str]]
) -> None:
    need(client)
    trial = trial_on(target)
    topics = [TOPIC.format(codec) for codec in client.codecs]
    reader = trial.member(client, "reader", topics=topics)
    expected = set().union(*(written[topic] for topic in topics))
    trial.await_values(expected)
    trial.leave(reader)
    assert sorted(map(str, trial.timeline.values())) == sorted(expected)
