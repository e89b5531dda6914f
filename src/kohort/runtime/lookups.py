"""Runs lookups in logs on the event loop in slices, and reads long batches in a thread."""

from kohort.log.timestamp_lookup import Found, Lookup
from kohort.util.heavy_work import HeavyWork
from kohort.util.time_slice import TimeSlices


async def look_up(steps: Lookup, slices: TimeSlices, heavy_work: HeavyWork) -> Found:
    """The result of a lookup; raises what its steps raise."""
    try:
        work = next(steps)
        while True:
            result = None if work is None else await heavy_work.run(work)
            await slices.give_way()
            work = steps.send(result)
    except StopIteration as end:
        position: Found = end.value
        return position
