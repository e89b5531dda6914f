"""The `kohort` command.

`kohort serve` has to listen within 0.4 s. So each command's module, and its dependencies, are
imported only when that command runs, and the garbage collector is off until it is: an import leaves
next to no garbage, and looking for it takes a tenth of the CPU time of a start.
"""

import errno
import gc
import os
import signal
import sys
from typing import Final

from kohort.util.kio import import_kio

_OF_OUTPUT: Final = (errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC)


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    _open_closed_streams()
    gc.disable()
    try:
        import_kio()
        from kohort.cli.app import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BrokenPipeError:  # `kohort config | head`
        _drop_output()
        code = 128 + signal.SIGPIPE
    except OSError as error:
        _drop_output()
        from kohort.util.printable import printable

        print(printable(f"kohort: {_describe_error(error)}"), file=sys.stderr)
        code = 1
    sys.exit(code)


def collect_garbage() -> None:
    """Turn the garbage collector on after the imports of a process, all of which stay."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _open_closed_streams() -> None:
    """Open standard streams that the caller closed, so that no socket gets their numbers.

    Reading and writing fail, as on a closed one; messages are dropped.
    """
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _drop_output() -> None:
    """Python must not find standard output broken again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _describe_error(error: OSError) -> str:
    if error.filename is None and error.errno not in _OF_OUTPUT:
        return str(error)
    where = "standard output" if error.filename is None else error.filename
    return f"{where}: {error.strerror}"
