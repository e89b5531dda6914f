"""How a computing thread leaves time to the event loop."""

import threading
from collections.abc import Callable
from queue import Queue

from kohort.util.pacing import WORK_S, Clocks, Pacing
from waiting import wait_until


class World:
    """A thread that computes, and a loop that uses up a share of the time when it sleeps."""

    def __init__(self, share: float, wakes_up_after: float = 0.0) -> None:
        self.share = share
        self.wakes_up_after = wakes_up_after
        self.now = self.loop = 100.0
        self.slept = 0.0

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.loop, self.sleep)

    def work(self, seconds: float) -> None:
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        self.loop += self.share * max(seconds - self.wakes_up_after, 0.0)


def work(world: World, seconds: float, pacing: Pacing | None = None) -> None:
    pacing = pacing or Pacing(world.clocks())
    pacing.rest()
    world.slept = 0.0
    for _ in range(round(seconds / 0.0002)):
        world.work(0.0002)
        pacing.rest()


def test_a_busy_loop_keeps_nine_tenths_of_the_time() -> None:
    world = World(share=1.0)
    work(world, 1.0)
    assert 8.6 <= world.slept <= 9.4


def test_a_loop_that_is_slow_to_wake_up_keeps_most_of_the_time() -> None:
    world = World(share=1.0, wakes_up_after=0.00008)
    work(world, 1.0)
    assert 7.6 <= world.slept <= 9.4


def test_a_loop_that_has_no_more_to_do_is_given_no_more_time() -> None:
    world = World(share=1.0)
    pacing = Pacing(world.clocks())
    work(world, 0.1, pacing)
    world.share = 0.0
    work(world, 1.0, pacing)
    assert world.slept <= 0.13


def test_the_rests_shrink_with_the_load_of_the_loop() -> None:
    world = World(share=0.25)
    work(world, 1.0)
    assert 2.0 <= world.slept <= 2.5


def test_alone_it_hardly_rests() -> None:
    world = World(share=0.0)
    work(world, 1.0)
    assert 0.05 <= world.slept <= 0.12


def test_the_clock_of_a_loop_counts_the_time_that_its_thread_computes_now() -> None:
    ended, clock = threading.Event(), Queue[Callable[[], float]]()

    def loop() -> None:
        clock.put(Clocks().loop)
        while not ended.is_set():
            pass

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        computed = clock.get(timeout=60)
        before = computed()
        wait_until(lambda: computed() - before > 0.01)
    finally:
        ended.set()
        thread.join()


def test_work_without_a_look_at_the_clock_is_no_reason_to_rest_for_long() -> None:
    world = World(share=1.0)
    pacing = Pacing(world.clocks())
    pacing.rest()
    world.slept = 0.0
    world.work(10)
    pacing.rest()
    assert WORK_S < world.slept < 0.1
