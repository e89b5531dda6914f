"""Keeps the garbage collector from what a test process holds for the whole run.

Modules, tests and their parameters are half a million objects. A full collection looks at all of
them, which takes half a second of CPU time, unless they are frozen.
"""

import gc

LEFT = 100_000
"""Objects that tests may freeze before what they have left is collected."""

_frozen = 0
_held = False


def freeze() -> None:
    """Freeze what is there; to be called when all tests have been imported."""
    global _frozen
    gc.collect()
    gc.freeze()
    _frozen = gc.get_freeze_count()


def hold() -> None:
    """Freeze what is there until the test has ended, and perhaps for longer."""
    global _held
    gc.collect()
    gc.freeze()
    _held = True


def collect() -> None:
    """To be called between two tests: collect what they have frozen, if it is much."""
    global _held
    held, _held = _held, False
    if held and gc.get_freeze_count() > _frozen + LEFT:  # counting them takes milliseconds
        gc.unfreeze()
        freeze()
