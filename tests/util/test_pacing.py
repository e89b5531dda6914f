"""How a computing thread leaves time to the event loop."""

import pytest

from kohort.util.pacing import WORK_S, Clocks, Pacing


class World:
    """A thread that computes, and others that use up a share of the time when it sleeps."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.now = self.own = self.all = 100.0
        self.slept = 0.0

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.own, lambda: self.all, self.sleep)

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.own += seconds
        self.all += seconds

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        self.all += self.share * seconds


def work(world: World, seconds: float) -> None:
    pacing = Pacing(world.clocks())
    pacing.rest()
    world.slept = 0.0
    for _ in range(round(seconds / 0.0002)):
        world.work(0.0002)
        pacing.rest()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_busy_loop_keeps_four_fifths_of_the_time(threads: int) -> None:
    world = World(share=threads)
    work(world, 1.0)
    assert 3.8 <= world.slept <= 4.3


def test_the_rests_shrink_with_the_load_of_the_loop() -> None:
    world = World(share=0.25)
    work(world, 1.0)
    assert 0.9 <= world.slept <= 1.2


def test_alone_it_hardly_rests() -> None:
    world = World(share=0.0)
    work(world, 1.0)
    assert 0.05 <= world.slept <= 0.12


def test_clocks_that_are_read_one_after_the_other_do_no_harm() -> None:
    world = World(share=-0.01)
    work(world, 0.1)
    assert world.slept <= 0.012


def test_work_without_a_look_at_the_clock_is_no_reason_to_rest_for_long() -> None:
    world = World(share=1.0)
    pacing = Pacing(world.clocks())
    pacing.rest()
    world.slept = 0.0
    world.work(10)
    pacing.rest()
    assert WORK_S < world.slept < 0.1
