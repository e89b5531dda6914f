"""Apache Flink: a job that copies a topic, with a sink that is exactly once."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.built import flink as command
from interop.observer import Observer
from interop.processes import PATIENCE_S, Process
from interop.programs import KOHORT
from interop.targets import Target, each_server
from interop.trial import PARTITIONS, Trial
from waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.clients]


@each_server
def test_exactly_once_copies_each_record_once(
    flink: None, restartable: Target, trial_on: Callable[[Target], Trial], tmp_path: Path
) -> None:
    """`DeliveryGuarantee.EXACTLY_ONCE`: the job is killed and begins again at its last checkpoint;
    then the server is killed.
    """
    trial = trial_on(restartable)
    observer = Observer(restartable.address)
    copy = f"{trial.topic}-copy"
    trial.create_topic(copy, PARTITIONS)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()

    def start(name: str) -> Process:
        words = (restartable.address, trial.topic, copy, str(checkpoints))
        return trial.start(name, command(*words))

    def copied() -> list[str]:
        return [value for _, value in observer.records(copy, PARTITIONS, "read_committed")]

    def await_more() -> None:
        before = len(copied())
        wait_until(lambda: len(copied()) > before, trial.tails, seconds=PATIENCE_S)

    feed = trial.feed(KOHORT)
    job = start("job")
    await_more()
    await_more()
    job.kill()
    start("next-job")
    await_more()
    restartable.restart(signal.SIGKILL)
    await_more()
    feed.end()
    wait_until(lambda: {*copied()} == {*feed.sent}, trial.tails, seconds=PATIENCE_S)
    assert sorted(copied()) == sorted(feed.sent)
