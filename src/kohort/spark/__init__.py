"""Kafka topics in Spark, without a JAR, as `.format("kohort")`.

Register the source with `register(spark)`.

- Options: `options`, `connecting`. Offsets in Spark's form: `positions`. Requests to the cluster:
  `offset_queries`.
- Reading: `ranges` divides the work, `fetching` is a task. `batch` reads once, and `stream`
  continues from its checkpoint. `reporting` and `member_stream` belong to a group as well.
  `data_loss` is the end of a query, or a warning. `frames` has batch frames that are used again.
- `state` refuses stateful queries that are members.
- Writing: `writing` is the work of tasks and driver, `row_spool` keeps waiting rows, `sending` has
  the producer.
- Columns: `avro`, `json_schema` and `protobuf` are `registry_columns` with a schema registry.
- Processes: `background` runs the client in Spark's processes, `workers` are those that run tasks.
  `logs` are their lines, and `metrics` come from the progress of queries.
- `registration` tells a session of the source, with `startup` on the path of its Python processes;
  `session` and `pipeline` start Spark.
"""

from kohort.util.kio import import_kio

import_kio()  # before anything else imports kio

from kohort.spark.frames import refreshed  # noqa: E402
from kohort.spark.registration import register  # noqa: E402
from kohort.spark.source import KohortDataSource  # noqa: E402
from kohort.spark.state import validate_starts  # noqa: E402

validate_starts()

__all__ = ["KohortDataSource", "refreshed", "register"]
