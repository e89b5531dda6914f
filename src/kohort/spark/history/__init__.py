"""The history of groups in Spark: `__consumer_offsets`, folded into tables.

    from kohort.spark import history

    history.build(spark, "broker:9092", "out")             # or a path of segment files
    tables = history.read(spark, "out")
    tables.at("2026-01-31T10:42Z").assignments.where("partition = 7").show()

- `building` is a batch, and `following` a stream, both of which write a directory with
  `kohort.history_files`. `sources` reads records, and `folding` is the work of the tasks.
- `tables` reads the directory, `moments` cuts its tables at a time, and `certainty` says what
  committed offsets of the past can be relied on.
- `sampling` samples the ends of topics beside a build. `lags` are lag and status by them.
- `records` has the records of a broker, of files or of a DataFrame as one frame, of which
  `commits` and the other functions make tables without a directory. `topic_names` are with it.

The tasks write rows by PyArrow. Only the names of files go back through Spark: handing rows to the
JVM takes longer than decoding them.
"""

from kohort.history.group_fold import GroupOptions
from kohort.history.status import StatusLimits
from kohort.spark.history.building import build
from kohort.spark.history.following import follow
from kohort.spark.history.lags import lag, status
from kohort.spark.history.records import (
    assignments,
    commits,
    coverage,
    generations,
    group_records,
    groups,
    members,
    minutes,
    offsets,
    rebalances,
)
from kohort.spark.history.tables import HistoryTables, read

__all__ = [
    "GroupOptions",
    "HistoryTables",
    "StatusLimits",
    "assignments",
    "build",
    "commits",
    "coverage",
    "follow",
    "generations",
    "group_records",
    "groups",
    "lag",
    "members",
    "minutes",
    "offsets",
    "read",
    "rebalances",
    "status",
]
