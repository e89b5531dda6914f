"""Log lines of the Python processes that Spark starts for a source: on stderr, in Spark's format.

Spark passes their stderr on to that of the driver's JVM. Without a handler Python would print
warnings without time and level.
"""

import logging
import os
from typing import Final

from kohort.util.printable import PrintableFormatter

LEVEL: Final = "KOHORT_SPARK_LOG_LEVEL"
"""Environment variable with a level of Python's `logging`; WARNING by default, also for others.

At INFO a member logs its joins, generations and rebalances.
"""
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TIME: Final = "%y/%m/%d %H:%M:%S"


def log_to_stderr() -> None:
    """Have the loggers of `kohort` print, unless this process has its own handlers. Idempotent."""
    logger = logging.getLogger("kohort")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter(_FORMAT, _TIME))
    logger.addHandler(handler)
    levels = logging.getLevelNamesMapping()
    logger.setLevel(levels.get(os.environ.get(LEVEL, "").upper(), logging.WARNING))
