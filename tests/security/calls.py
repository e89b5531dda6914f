"""Work that does not depend on the speed of a machine."""

import sys
from collections.abc import Callable
from types import FrameType


def calls_of(function: Callable[[], object]) -> list[str]:
    """The functions that a call of `function` calls, in their order."""
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)
        elif event == "c_call":
            called.append(getattr(argument, "__qualname__", repr(argument)))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called
