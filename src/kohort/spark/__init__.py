"""Kafka topics in Spark, without a JAR: `spark.dataSource.register(KohortDataSource)`, then `.format("kohort")`.

`options` and `connecting` say what may be asked for, `positions` how Spark writes offsets, `asking` what the cluster is
asked, `ranges` how work is divided, `fetching` what a task does, `batch` reads once. `background` is where the
client runs in Spark's processes.
"""

from kohort.spark.source import KohortDataSource

__all__ = ["KohortDataSource"]
