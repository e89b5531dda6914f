"""The `kohort` command.

Importing this room costs nothing: `kohort serve` listens within 0.4 s of being typed, so each
command's module, and what it needs, is imported when that command runs.
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
