"""The alarm: timers ring on the loop's time, once whoever was in time has been heard, and never
much later.
"""

import asyncio
import time

from kohort.runtime.timer_driver import MAX_DELAY_MS, TimerDriver
from runtime.virtual_time import LoopClock, VirtualLoop, virtual_time


class Rings:
    """An alarm, and when each key rang, in ms after the start."""

    def __init__(self, fire=lambda _: None):
        self.clock = LoopClock()
        self.start = self.clock.now()
        self.at = {}
        self._then = fire
        self.alarm = TimerDriver(self.clock, self._fire)

    def set(self, key, after_ms):
        self.alarm.set(key, self.clock.now() + after_ms)

    def _fire(self, key):
        self.at[key] = self.clock.now() - self.start
        self._then(key)


async def requests(alarm, milliseconds):
    """One each half millisecond."""
    for _ in range(2 * milliseconds):
        alarm.had_request = True
        await asyncio.sleep(0.000_5)


@virtual_time
async def test_a_timer_rings_once_the_loop_has_turned_without_a_request():
    rings = Rings()
    rings.set("a", 100)
    await asyncio.sleep(0.099)
    assert rings.at == {}
    await asyncio.sleep(1)
    assert rings.at == {"a": 101}


@virtual_time
async def test_a_timer_waits_while_requests_come():
    rings = Rings()
    rings.set("a", 0)
    await requests(rings.alarm, 10)
    assert rings.at == {}
    await asyncio.sleep(1)
    assert 10 <= rings.at["a"] <= 12


@virtual_time
async def test_very_many_timers_ring_in_several_turns():
    rings, in_turn = await rung(2_000, lambda: None)
    assert max(in_turn) <= 200
    assert max(rings.at.values()) <= 5 + MAX_DELAY_MS


@virtual_time
async def test_timers_that_take_long_ring_in_several_turns():
    _, in_turn = await rung(10, lambda: time.sleep(0.004))
    assert max(in_turn) <= 3


async def rung(timers, work):
    """The rings of so many timers that are due together, and how many rang in each turn."""
    in_turn = [0]

    def count(_):
        if not in_turn[-1]:
            asyncio.get_running_loop().call_soon(in_turn.append, 0)
        in_turn[-1] += 1
        work()

    rings = Rings(count)
    for key in range(timers):
        rings.set(key, 5)
    await asyncio.sleep(1)
    assert sum(in_turn) == timers
    return rings, in_turn


@virtual_time
async def test_a_timer_does_not_wait_for_ever():
    rings = Rings()
    rings.set("a", 5)
    await requests(rings.alarm, 100)
    assert rings.at["a"] <= 5 + MAX_DELAY_MS + 1


@virtual_time
async def test_heartbeats_in_time_during_a_pause_of_the_process_come_before_timers():
    rings = Rings()
    loop = asyncio.get_running_loop()
    rings.set("session", 10)
    loop.call_later(0.011, rings.alarm.cancel, "session")  # a heartbeat, found behind the timer
    await asyncio.sleep(0.001)
    assert isinstance(loop, VirtualLoop)
    loop.seconds += 60
    await asyncio.sleep(1)
    assert rings.at == {}


@virtual_time
async def test_a_timer_set_because_another_rang_waits_for_requests_anew():
    rings = Rings(lambda key: rings.set("b", 0) if key == "a" else None)
    rings.set("a", 10)
    await asyncio.sleep(0.011_5)
    assert rings.at == {"a": 11}
    await requests(rings.alarm, 10)
    assert rings.at == {"a": 11}
    await asyncio.sleep(1)
    assert set(rings.at) == {"a", "b"}


@virtual_time
async def test_an_earlier_timer_rings_before_one_that_was_set_first():
    rings = Rings()
    rings.set("late", 1_000)
    rings.set("early", 10)
    rings.set("moved", 20)
    rings.set("moved", 2_000)
    rings.set("gone", 5)
    rings.alarm.cancel("gone")
    assert len(rings.alarm) == 3
    await asyncio.sleep(3)
    assert rings.at == {"early": 11, "late": 1_001, "moved": 2_001}


@virtual_time
async def test_a_closed_alarm_rings_no_more():
    rings = Rings()
    rings.set("a", 10)
    rings.alarm.close()
    await asyncio.sleep(1)
    assert rings.at == {}
