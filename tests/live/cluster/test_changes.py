"""Nodes on one PostgreSQL that are killed and suspended while clients change topics and more."""

import random

import pytest

from live.cluster.changes import Changes
from peers.postgres import PostgresUnavailableError, programs

pytestmark = pytest.mark.timeout(600)


@pytest.mark.clients
@pytest.mark.parametrize("seconds", [20, pytest.param(200, marks=pytest.mark.long)])
def test_changes_stand_whatever_happens_to_nodes(tmp_path, seconds):
    try:
        programs()
    except PostgresUnavailableError as error:
        pytest.skip(str(error))
    seed = random.randrange(1 << 32)
    outcome = Changes(tmp_path, seed=seed, seconds=seconds).run()
    print(seed, outcome)
    assert not outcome.violations, (seed, outcome.violations)
    assert outcome.told
