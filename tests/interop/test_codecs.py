"""What one client writes, compressed in any way, every client reads."""

from collections.abc import Callable

import pytest

from interop.conftest import need
from interop.processes import Process, finish, write_lines
from interop.programs import CODECS, Client
from interop.roster import each_client
from interop.targets import Target
from interop.trial import RUN, Trial

pytestmark = pytest.mark.interop

RECORDS = 20
TEXT = "the quick brown fox jumps over the lazy dog; " * 20
TOPIC = f"codec-{{}}-{RUN}"


def values(writer: Client) -> list[str]:
    """About 1 kB each, so that a batch is worth compressing."""
    return [f"{writer} {number} {TEXT}" for number in range(RECORDS)]


@pytest.fixture(scope="module")
def written(
    target: Target, tmp_path_factory: pytest.TempPathFactory, able_clients: tuple[Client, ...]
) -> dict[str, list[str]]:
    """The values in each codec's topic, written by every client that is here."""
    trial = Trial(target, tmp_path_factory.mktemp("codecs"), "codecs")
    with trial:
        for codec in CODECS:
            trial.create_topic(TOPIC.format(codec), 1)
        for producer in [
            producer for client in able_clients for producer in start_writing(trial, client)
        ]:
            finish(producer)
    return {
        TOPIC.format(codec): [
            value for client in able_clients if codec in client.codecs for value in values(client)
        ]
        for codec in CODECS
    }


def start_writing(trial: Trial, client: Client) -> list[Process]:
    """Each value goes out once with each codec."""
    runs = [client.codecs] if client.codecs_at_once else [(codec,) for codec in client.codecs]
    producers = [
        trial.producer(client, codecs, TOPIC if len(codecs) > 1 else TOPIC.format(codecs[0]))
        for codecs in runs
    ]
    for producer in producers:
        write_lines(
            producer, ((f"key-{number}", value) for number, value in enumerate(values(client)))
        )
    return producers


@each_client
def test_reads_what_every_client_wrote(
    client: Client,
    target: Target,
    trial_on: Callable[[Target], Trial],
    written: dict[str, list[str]],
) -> None:
    need(client)
    trial = trial_on(target)
    topics = [TOPIC.format(codec) for codec in client.codecs]
    reader = trial.member(client, "reader", topics=topics)
    trial.await_more(sum(len(written[topic]) for topic in topics))
    trial.leave(reader)
    for topic in topics:
        assert sorted(map(str, trial.timeline.values(f"{topic}-0"))) == sorted(written[topic]), (
            topic
        )
