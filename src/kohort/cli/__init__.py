"""The `kohort` command.

Importing this room costs nothing: `kohort serve` listens within 0.4 s of being typed, so each command's
module, and what it needs, is imported when that command runs.
"""

import importlib
import sys


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    _spare_hypothesis()
    from kohort.cli.app import run

    sys.exit(run(sys.argv[1:]))


def _spare_hypothesis() -> None:
    """Keep kio from importing Hypothesis into this process.

    Where Hypothesis is installed, as in every development environment, kio imports it to register test
    strategies for its types: 0.4 s. A module that is None in `sys.modules` counts as not installed; once kio
    has looked, the entry goes, so that whoever wants Hypothesis after all gets it.
    """
    if "hypothesis" not in sys.modules and "kio.static" not in sys.modules:
        sys.modules["hypothesis"] = None  # type: ignore[assignment]
        try:
            importlib.import_module("kio.static.primitive")
        finally:
            del sys.modules["hypothesis"]
