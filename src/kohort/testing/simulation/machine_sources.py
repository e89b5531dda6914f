"""Takes time and randomness of a simulation from the simulation instead of the machine.

While a simulation runs, its thread gets simulated results from the functions of `time`, and
pseudo-random ones from `random`, `secrets`, `uuid4` and `os.urandom`. So a program needs no clock
or random source as an argument to be simulated. Other threads get what they always get.

Out of reach are `datetime.now()` and `random.Random()` without a seed, which are written in C.
"""

import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.process import current_process

EPOCH_S: Final = 1_700_000_000
"""Wall clock of all processes when a simulation begins."""
_NS: Final = 1_000_000_000


def wall_clock_s(loop: SimulatedLoop) -> float:
    """Seconds since the Unix epoch by the wall clock of the process that runs."""
    return EPOCH_S + loop.time() + current_process.get(loop.main).clock_offset_s


@contextmanager
def simulated_sources(loop: SimulatedLoop, seed: str) -> Iterator[None]:
    """Replace the sources of this thread, and collect garbage only at the end.

    A collection depends on all that the process did before, and runs finalizers.
    """
    clocks: dict[str, Callable[[], Any]] = {
        "time": lambda: wall_clock_s(loop),
        "time_ns": lambda: int(wall_clock_s(loop) * 1_000_000) * 1_000,
    }
    for name in ("monotonic", "perf_counter", "thread_time", "process_time"):
        clocks[name] = loop.time
        clocks[f"{name}_ns"] = lambda: int(loop.time() * _NS)
    bytes_of = random.Random(f"{seed} bytes").randbytes
    state = random.getstate()
    with ExitStack() as replaced:
        for name, function in clocks.items():
            _replace(replaced, time, name, function)
        _replace(replaced, os, "urandom", bytes_of)
        _replace(replaced, random, "_urandom", bytes_of)
        random.seed(f"{seed} random")
        replaced.callback(random.setstate, state)
        if gc.isenabled():
            gc.disable()
            replaced.callback(gc.enable)
        yield


def _replace(replaced: ExitStack, module: Any, name: str, simulated: Callable[..., Any]) -> None:
    """Replace a function in its module, and wherever Kohort has imported it by name."""
    real, thread = getattr(module, name), threading.get_ident()
    is_over: list[bool] = []

    def source(*args: Any) -> Any:
        return (real if is_over or threading.get_ident() != thread else simulated)(*args)

    for user in [module, *(sys.modules[name] for name in sorted(sys.modules) if _is_own(name))]:
        if vars(user).get(name) is real:
            setattr(user, name, source)
            replaced.callback(setattr, user, name, real)
    # Modules that are imported meanwhile keep the new function.
    replaced.callback(is_over.append, True)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == "kohort"
