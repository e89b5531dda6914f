"""What no order of ticks, crashes and clocks may break."""

from collections.abc import Sequence

import pytest

from cluster.simulation import ClusterSimulation, Row, Storage
from kohort.cluster import NodeRecord

STEPS = 100_000
SEEDS = 20


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_partition_has_one_leader_at_a_time_whatever_happens(seed: int) -> None:
    simulation = ClusterSimulation(seed)
    simulation.steps(STEPS // SEEDS // 2)
    simulation.settle()
    simulation.check_settled()
    simulation.steps(STEPS // SEEDS // 2)
    simulation.settle()
    simulation.check_settled()
    assert sum(simulation.storage.served.values()) > 100


def test_a_process_that_is_alive_keeps_its_id_until_it_ends() -> None:
    simulation = ClusterSimulation(0)
    simulation.steps(STEPS // 4)
    assert simulation.replaced
    assert simulation.taken_back


def test_the_simulation_finds_a_process_that_takes_its_id_from_one_that_is_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Row, "is_free_for", lambda row, process, now: True)
    with pytest.raises(AssertionError, match="is taken from"):
        ClusterSimulation(0).steps(STEPS)


class _NoFence(Storage):
    """Decides that a node is gone, and lets it write on."""

    def append(self, author: int, session: int, end: int, records: Sequence[NodeRecord]) -> bool:
        sessions = {id: row.session for id, row in self.rows.items()}
        taken = super().append(author, session, end, records)
        for id, of in sessions.items():
            self.rows[id].session = of
        return taken


def test_the_simulation_finds_two_leaders_where_nobody_is_fenced() -> None:
    simulation = ClusterSimulation(0, _NoFence())
    with pytest.raises(AssertionError, match="appends to what"):
        simulation.steps(STEPS)
