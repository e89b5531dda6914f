"""The `kohort` command.

Importing this room costs nothing: `kohort serve` listens within 0.4 s of being typed, so each command's module,
and what it needs, is imported when that command runs.
"""

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    try:
        _import_lean()
        from kohort.cli.app import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BrokenPipeError:  # `kohort config | head`: Python must not find the pipe broken again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    sys.exit(code)


def _import_lean() -> None:
    """Import two libraries without what they import for reasons that a server does not have.

    kio imports Hypothesis, where it is installed, to register test strategies for its types: 400 ms. crc32c looks up
    its own version, for which Python reads the package's metadata: 25 ms.
    """
    with _instead_of("hypothesis", None):
        importlib.import_module("kio.static.primitive")
    metadata = ModuleType("importlib.metadata")
    metadata.version = lambda _: ""  # type: ignore[attr-defined]
    with _instead_of("importlib.metadata", metadata):
        importlib.import_module("crc32c")


@contextmanager
def _instead_of(name: str, module: ModuleType | None) -> Iterator[None]:
    """Have imports of `name` find `module`, None: nothing, for as long as this lasts. Whoever asks later gets it."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = module  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
