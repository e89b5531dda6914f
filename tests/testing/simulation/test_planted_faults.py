"""Faults that are planted in server and client are found, and their schedules made small."""

from collections.abc import Sequence
from typing import Any

import pytest

from kohort.coordinator import offsets
from kohort.errors import ErrorCode, KafkaError
from kohort.log.producer_states import ProducerStates
from kohort.log.synced_log import SyncedLog
from kohort.testing import Fault, Simulation, SimulationError, simulate
from kohort.testing.simulation.runner import run_once
from kohort.testing.simulation.scenarios import SCENARIOS


async def classic(simulation: Simulation) -> None:
    await SCENARIOS["classic"](simulation, period_s=80)


def find(seeds: Sequence[int]) -> SimulationError:
    """The error of the first seed that fails."""
    for seed in seeds:
        try:
            simulate(seed, classic)
        except SimulationError as error:
            return error
    pytest.fail(f"no seed of {seeds} found the fault")


def test_a_coordinator_that_does_not_fence_a_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "validate_offset_commit", lambda *_: ErrorCode.none)
    error = find(range(4, 40))
    found = error.result
    assert {violation.invariant for violation in found.violations} == {"commits go forward"}
    assert len(found.faults) == 1, "a member that is away for longer than its session"
    assert found.faults[0].kind in ("partition", "pause", "slow network")
    text = str(error)
    assert f"seed {found.seed}: commits go forward: group billing has committed" in text
    assert f"simulate({found.seed}, classic, faults=[\n    {found.faults[0]!r},\n])" in text
    assert f"FAULT {found.faults[0]}" in text
    again = run_once(found.seed, classic, found.faults, {})
    assert again.trace == found.trace

    monkeypatch.undo()
    assert not run_once(found.seed, classic, found.faults, {}).violations


def test_a_server_that_acknowledges_before_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def durable(_: SyncedLog) -> None:
        """Promise what is not so."""

    faults = [Fault(5.0, "slow disk", "kafka", 60.0), Fault(20.0, "power loss", "kafka", 1.0)]
    simulate(1, classic, faults=faults)
    monkeypatch.setattr(SyncedLog, "durable", durable)
    with pytest.raises(SimulationError, match=r"acknowledged (commits|records)") as failed:
        simulate(1, classic, faults=faults, shrinks=0)
    assert failed.value.result.faults == tuple(faults)


def test_a_log_that_takes_a_batch_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.validate

    def validate(self: ProducerStates, *args: Any, **options: Any) -> None:
        try:
            real(self, *args, **options)
        except KafkaError:
            pass

    faults = [Fault(5.0, "lose response", "shop-1", api="Produce")]
    simulate(1, classic, faults=faults)
    monkeypatch.setattr(ProducerStates, "validate", validate)
    with pytest.raises(SimulationError, match="no doubled records"):
        simulate(1, classic, faults=faults, shrinks=0)
