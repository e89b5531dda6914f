"""Objects that only Python's cyclic garbage collector would free.

    with uncollected() as garbage:
        await refused_requests()
    assert exceptions_in(garbage) == []

An error that a local variable keeps is the usual cause: error → traceback → frame → error. All that
the frames of the traceback refer to, a request for instance, is then in memory until the next full
collection.
"""

import gc
import types
from collections.abc import Iterator
from contextlib import contextmanager

import heap


@contextmanager
def uncollected() -> Iterator[list[object]]:
    """Do without the collector; what it would have freed in the block is in the list at its end."""
    heap.hold()
    gc.disable()
    garbage: list[object] = []
    try:
        yield garbage
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        garbage += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def errors_in(garbage: list[object]) -> list[str]:
    """The exceptions among the garbage, each with the frames of its traceback."""
    return sorted(
        {
            f"{error!r:.200} in {' < '.join(_frames(error))}"
            for error in garbage
            if isinstance(error, BaseException)
        }
    )


def frames_in(garbage: list[object]) -> list[str]:
    """The frames among the garbage."""
    return sorted({_place(each) for each in garbage if isinstance(each, types.FrameType)})


def _frames(error: BaseException) -> Iterator[str]:
    at = error.__traceback__
    while at is not None:
        yield f"{_place(at.tb_frame)}:{at.tb_lineno}"
        at = at.tb_next


def _place(frame: types.FrameType) -> str:
    return f"{'/'.join(frame.f_code.co_filename.split('/')[-2:])} {frame.f_code.co_name}"
