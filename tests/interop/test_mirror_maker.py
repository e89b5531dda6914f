"""MirrorMaker 2 from one server to another: topics, records, and the offsets of groups."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.built import mirror_maker as command
from interop.observer import Observer
from interop.programs import KOHORT
from interop.targets import ApacheKafka, KohortServe, Target
from interop.trial import PARTITIONS, Trial
from peers.kafka import free_port
from waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.clients]


@pytest.fixture(params=["kohort", pytest.param("kafka", marks=pytest.mark.long)])
def backup(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    """The server that gets the copies."""
    kohort = request.param == "kohort"
    server = KohortServe(tmp_path) if kohort else ApacheKafka(free_port(neighbours=1))
    yield server
    server.stop()


def settings(trial: Trial, backup: Target) -> dict[str, object]:
    """Topics and groups of this trial only, each offset exactly, and new ones soon."""
    often = ("refresh.topics", "refresh.groups", "sync.group.offsets", "emit.checkpoints")
    kept = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    internal = ("config.storage", "offset.storage", "status.storage")
    return {
        "clusters": "primary,backup",
        "primary.bootstrap.servers": trial.target.address,
        "backup.bootstrap.servers": backup.address,
        "primary->backup.enabled": "true",
        "primary->backup.topics": trial.topic,
        "primary->backup.groups": trial.group,
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": 0,
        "replication.factor": 1,
        **{f"{each}.replication.factor": 1 for each in (*kept, *internal)},
        **{f"{each}.interval.seconds": 1 for each in often},
    }


def test_topics_records_and_groups_are_copied(
    mirror_maker: None,
    target: Target,
    backup: Target,
    trial_on: Callable[[Target], Trial],
    tmp_path: Path,
) -> None:
    trial = trial_on(target)
    trial.produce(KOHORT, (f"early-{number}" for number in range(100)))
    member = trial.member(KOHORT, "member")
    ends = trial.await_all_processed()
    trial.leave(member)
    trial.await_committed(ends)
    file = tmp_path / "mirror-maker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings(trial, backup).items()))
    mirror_maker = trial.start("mirror-maker", command(str(file)))
    there, copy = Observer(backup.address), f"primary.{trial.topic}"

    def copied() -> bool:
        if copy not in there.topics():
            return False
        here = Observer(target.address).records(trial.topic, PARTITIONS)
        return sorted(there.records(copy, PARTITIONS)) == sorted(here)

    wait_until(copied, trial.tails)
    wait_until(
        lambda: there.committed(trial.group) == {f"primary.{at}": end for at, end in ends.items()},
        lambda: f"{there.committed(trial.group)}\nnot {ends}\n{trial.tails()}",
    )
    trial.produce(KOHORT, (f"late-{number}" for number in range(100)))
    wait_until(copied, trial.tails)
    assert {"heartbeats", "primary.checkpoints.internal"} <= there.topics()
    trial.leave(mirror_maker)
