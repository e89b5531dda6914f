"""Spark's Python workers, which run one task after the other.

Between two tasks PySpark collects garbage, and goes through everything that was ever imported: 60
ms of CPU time with numba, as much with pandas, more than it takes to read 100,000 records, and the
next task may have to wait for it. What a module made when it was imported is never garbage;
`settle` tells the collector so.
"""

import gc
import os
import sys

_settled: tuple[int, int] | None = None
"""The process that has (a worker is forked from one that may have as well), and how many modules it
had.
"""


def settle() -> None:
    """To be called by a task as soon as everything that it needs is imported; does something if
    anything was.

    Tasks import at their end as well: where pandas is installed, PyArrow does when PySpark hands it
    a list of objects.
    """
    global _settled
    if _settled != (now := (os.getpid(), len(sys.modules))):
        _settled = now
        gc.collect()
        gc.freeze()
