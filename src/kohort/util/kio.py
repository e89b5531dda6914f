"""Import of kio without Hypothesis, for processes whose start somebody waits for.

Those are the command line, the workers of a server, and Spark's Python processes.

Where Hypothesis is installed kio imports it, to register test strategies for its types: 300 ms of
CPU time that no server and no query needs.
"""

import importlib
import sys


def import_kio() -> None:
    """Import the modules of kio that import Hypothesis, unless that is imported already."""
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]
