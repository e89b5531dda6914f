"""Batch frames that are used more than once.

PySpark plans the partitions of a Python data source once for each `load()`: the JVM keeps them in
the source's `PythonDataSourceV2`, beside the frames and views that were made of it. So all actions
read the offsets of the first one. Tasks could request a later end. But a stage that is recomputed
after a loss of its shuffle files would then read other rows than the tasks of the next stage.
`refreshed` drops the plan on the driver; `warn_of_reuse` makes tasks warn of an old plan.
"""

import logging
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ADVICE: Final = "kohort.spark.refreshed(frame) plans it again, as load() does"
_RELATION: Final = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_TABLE: Final = "org.apache.spark.sql.execution.datasources.v2.python.PythonTable"
_MAX_PLANS: Final = 1_000
_log: Final = logging.getLogger("kohort.spark")
_executions: Final[dict[str, str]] = {}
"""The execution that first read each plan in this process; empty once its reuse is logged."""


def refreshed(frame: "DataFrame") -> "DataFrame":
    """`frame` with the offsets and partitions of its next action, not of its first one.

    Frames and views of the same `load()` are planned again, too. Actions in progress keep their
    plan. Raises ConfigError with Spark Connect, and before PySpark 4.1.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.sql.utils import is_remote

    if is_remote():
        raise ConfigError("a frame of Spark Connect cannot be planned again: use load()")
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    try:
        for number in range(leaves.size()):
            _drop_plan(leaves.apply(number))
    except Py4JError as error:
        raise ConfigError(f"this PySpark cannot plan a frame again, use load(): {error}") from error
    # Of this very frame Spark may have kept the physical plan.
    return frame.select("*")


def _drop_plan(leaf: Any) -> None:
    if leaf.getClass().getName() != _RELATION:
        return
    table = leaf.table()
    if table.getClass().getName() == _TABLE:
        source = table.getClass().getDeclaredField("ds")
        source.setAccessible(True)
        source.get(table).setReadInfo(None)


def warn_of_reuse(plan: str) -> None:
    """Log, once in this process, that a second execution reads the offsets of a plan.

    To be called by a task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    execution = context and context.getLocalProperty("spark.sql.execution.root.id")
    if not execution:
        return
    if len(_executions) >= _MAX_PLANS:
        _executions.clear()
    first = _executions.setdefault(plan, execution)
    if first not in ("", execution):
        _executions[plan] = ""
        _log.warning(
            "reading a batch frame again, up to the end offsets of its first action: %s", ADVICE
        )
