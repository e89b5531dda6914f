"""Child processes that never outlive this one."""

import ctypes
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def die_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    """A `preexec_fn`: the kernel sends this signal to the child once its parent is gone, in any way
    (Linux only).
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None

    def ask_kernel() -> None:
        prctl(PR_SET_PDEATHSIG, how)

    return ask_kernel
