"""Settings of Spark's Python workers, which run one task after the other.

Between two tasks PySpark collects garbage, and traverses all imported modules. That takes 60 ms of
CPU time with numba and as much with pandas, more than reading 100,000 records. The next task may
have to wait for it. Objects created by an import are never garbage, so `settle` excludes them.
"""

import gc
import os
import sys

last_settled: tuple[int, int] | None = None
"""The process that was settled, and its number of modules; a forked worker inherits both."""


def settle() -> None:
    """To be called by a task as soon as everything that it needs is imported.

    Does something if anything was. Tasks import at their end as well: where pandas is installed,
    PyArrow does when PySpark hands it a list of objects.
    """
    global last_settled
    if last_settled != (now := (os.getpid(), len(sys.modules))):
        last_settled = now
        gc.collect()
        gc.freeze()
