"""Kafka topics in Spark, without a JAR: `spark.dataSource.register(KohortDataSource)`, then
`.format("kohort")`.

`options` and `connecting` say what may be asked for, `positions` how Spark writes offsets, `queries`
what the cluster is asked, `ranges` how work is divided, `fetching` what a task does. `batch` reads
once, `stream` goes on from its checkpoint, `reporting` and `member_stream` belong to a group as
well. In the other direction `writing` is what tasks and driver do, `row_spool` how rows wait,
`sending` what sends them. `background` is where the client runs in Spark's processes, `workers` are
those that run tasks. `session` and `pipeline` are for those who have no Spark yet.
"""

from kohort import kio_import

kio_import.import_kio()  # before anything else imports kio

from kohort.spark.source import KohortDataSource  # noqa: E402

__all__ = ["KohortDataSource"]
