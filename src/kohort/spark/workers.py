"""Spark's Python workers, which run one task after the other.

Between two tasks PySpark collects garbage, and goes through everything that was ever imported: 60 ms of CPU time with
numba, more than it takes to read 100,000 records, and the next task may have to wait for it. What a module made when it
was imported is never garbage; `settle` tells the collector so.
"""

import gc
import os

_settled: int | None = None
"""The process that has: a worker is forked from one that may have as well."""


def settle() -> None:
    """To be called by a task as soon as everything that it needs is imported; does something once in a process."""
    global _settled
    if _settled != os.getpid():
        _settled = os.getpid()
        gc.collect()
        gc.freeze()
