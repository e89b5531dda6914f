"""The proof: over more than 1,000 random rebalances, in a world of late, lost and doubled requests,
killed members and restarted coordinators, every record is processed; none twice within a
generation; and nobody works on a partition that another one still works on: it was drained first,
or its loss was noticed in time.
"""

from unittest.mock import patch

import pytest

from client.group.chaos import Chaos
from client.group.world import run
from effort import seeds
from kohort.client.group import draining
from kohort.client.membership.membership import Membership

EAGER = ["range", "roundrobin", "sticky"]
COOPERATIVE = ["cooperative-sticky"]
NETWORK = {"break_probability": 0.02, "delay_ms": (0, 30)}


def witness(seed, assignors, rebalances, *, happenings=0, **options):
    network = {name: options.pop(name, NETWORK[name]) for name in NETWORK}

    async def test(world):
        chaos = Chaos(world, assignors=assignors, **options)
        await chaos.run(rebalances, happenings)
        chaos.assert_all_processed()
        return chaos

    return run(test, seed, **network)


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", seeds(5))
def test_a_thousand_random_rebalances(assignors, seed):
    chaos = witness(seed, assignors, 100)
    assert chaos.world.coordinator.rebalances >= 100
    assert len(chaos.witness.ends) == 3  # all three ways


@pytest.mark.parametrize("seed", seeds(5))
def test_a_thousand_random_epochs_of_the_consumer_protocol(seed):
    chaos = witness(seed, EAGER, 150, protocol="consumer")
    assert chaos.world.coordinator.rebalances >= 100
    assert len(chaos.witness.ends) >= 2


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", [16, *seeds(2)])
def test_random_members_of_both_protocols(assignors, seed):
    """The group changes its type with them; seed 16 meets a cooperative member that revokes."""
    witness(seed, assignors, 0, happenings=100, protocols=("classic", "consumer"))


def test_many_broken_connections_of_the_consumer_protocol():
    witness(2, EAGER, 50, protocol="consumer", break_probability=0.1, delay_ms=(0, 100))


def test_slow_drains_beyond_the_rebalance_timeout_of_the_consumer_protocol():
    witness(0, EAGER, 50, protocol="consumer", rebalance_timeout_ms=5_000)


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_the_same_seed_gives_the_same_run(assignors):
    first, second = (witness(3, assignors, 20) for _ in range(2))
    assert first.witness.in_generation == second.witness.in_generation
    assert first.world.now == second.world.now


def test_batched_commits_lose_nothing_either():
    witness(1, COOPERATIVE, 50, commit_interval_ms=5_000)
    witness(1, EAGER, 50, commit_interval_ms=5_000)


def test_a_retry_that_nothing_waits_for_any_more_does_not_keep_the_loop_spinning():
    witness(14, COOPERATIVE, 50, commit_interval_ms=5_000)


@pytest.mark.parametrize(("seed", "assignors"), [(0, COOPERATIVE), (2, COOPERATIVE), (3, EAGER)])
def test_a_rebalance_may_take_less_time_than_a_session(seed, assignors):
    """The group goes on without a member that does not join in time, though its session is not
    over.
    """
    witness(seed, assignors, 50, rebalance_timeout_ms=5_000)


def test_many_broken_connections():
    """A generation is not younger than it seems because its join was answered twice, the first time
    in vain.
    """
    witness(2, COOPERATIVE, 50, break_probability=0.1, delay_ms=(0, 100))


# --- the witness is not blind ---


async def _at_once(_tasks, _seconds):
    """What a client does that does not drain."""


def test_the_proof_fails_if_work_is_not_drained():
    with (
        patch.object(draining, "drain", _at_once),
        pytest.raises((AssertionError, BaseExceptionGroup)),
    ):
        witness(1, EAGER, 100)


def test_the_proof_fails_if_members_miss_the_end_of_their_session():
    endless = property(lambda self: None)
    with (
        patch.object(Membership, "expires_at", endless),
        pytest.raises((AssertionError, BaseExceptionGroup)),
    ):
        witness(1, COOPERATIVE, 200)
