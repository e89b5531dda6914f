"""A short chaos run, and proof that a loss would be found."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.coordinator.records import OffsetCommitRecord, decode
from kohort.protocol.batches import decode_records, iterate
from live.chaos.lone import Chaos
from live.chaos.run import GROUP_LOG

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]

LONG = [pytest.mark.long, pytest.mark.timeout(1_500)]


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=LONG)])
def test_kills_lose_nothing(tmp_path, kills):
    outcome = Chaos(tmp_path, kills=kills, seed=random.randrange(1 << 32)).run()
    print(outcome)
    assert not outcome.violations, (outcome, outcome.violations)
    assert outcome.kills == kills


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=LONG)])
def test_kills_of_workers_lose_nothing(tmp_path, kills):
    seed = random.randrange(1 << 32)
    outcome = Chaos(tmp_path, kills=kills, seed=seed, workers=2).run()
    print(outcome)
    assert not outcome.violations, (outcome, outcome.violations)
    assert outcome.kills == kills


# Few: `tests/live/cluster` kills servers on PostgreSQL, too.
@pytest.mark.parametrize("kills", [4, pytest.param(10, marks=LONG)])
def test_kills_lose_nothing_in_postgres(tmp_path, database, kills):
    seed = random.randrange(1 << 32)
    outcome = Chaos(tmp_path, kills=kills, seed=seed, storage=database).run()
    print(outcome)
    assert not outcome.violations, (outcome, outcome.violations)


def cut(directory: Path, is_lost: Callable[[bytes | None, bytes | None, int], bool]) -> bool:
    """Cut the newest segment before the first batch with such a record; whether there is one."""
    segment = max(directory.glob("*.log"), default=None)
    if segment is None:
        return False  # nothing was ever written
    data = segment.read_bytes()
    for position, _ in iterate(data):
        if any(
            is_lost(each.key, each.value, each.offset) for each in decode_records(data, position)
        ):
            segment.write_bytes(data[:position])
            return True
    return False


def lose_a_record(chaos: Chaos) -> None:
    last = chaos.ledger.acknowledged["kohort-plain"][-1]
    directory = chaos.data / f"kohort-plain-{last.partition[1]}"
    assert cut(directory, lambda _key, _value, offset: offset == last.offset)


def lose_a_commit(chaos: Chaos) -> None:
    (group, (topic, partition)), clients = next(iter(chaos.ledger.committed.items()))
    offset = max(told[-1] for told in clients.values())

    def is_it(key, value, _offset):
        record = decode(key, value)
        return (
            isinstance(record, OffsetCommitRecord)
            and record.key == (group, topic, partition)
            and record.value is not None
            and record.value.offset == offset
        )

    assert sum(cut(path, is_it) for path in chaos.data.glob(f"{GROUP_LOG}-*")) == 1


@pytest.mark.parametrize(
    ("lose", "found"),
    [
        (lose_a_record, "acknowledged records"),
        # `tests/live/cluster` finds it in each run, by the same check.
        pytest.param(lose_a_commit, "acknowledged commits are not", marks=pytest.mark.long),
    ],
)
def test_a_loss_is_found(tmp_path, lose, found):
    outcome = Chaos(tmp_path, kills=1, seed=1, recovery_seconds=5, while_down=lose).run()
    assert any(found in each for each in outcome.violations), outcome.violations
