"""The `kohort` command.

`kohort serve` has to listen within 0.4 s. So each command's module, and its dependencies, are
imported only when that command runs.
"""

import os
import signal
import sys

from kohort import kio_import


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    try:
        kio_import.import_kio()
        from kohort.cli.app import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    # `kohort config | head`: Python must not find the pipe broken again when it ends.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    sys.exit(code)
