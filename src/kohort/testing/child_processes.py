"""Child processes that end with their parent."""

import ctypes
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def die_with_parent(how: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """A `preexec_fn` that has the kernel send `how` to the child when its parent ends.

    The parent may end in any way. None where this is not possible (it is on Linux).
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None

    def set_signal() -> None:
        prctl(PR_SET_PDEATHSIG, how)

    return set_signal
