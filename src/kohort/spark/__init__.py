"""Kafka topics in Spark, without a JAR, as `.format("kohort")`.

Register the source with `register(spark)`.

- Options: `options`, `write_options`, and `kafka_options` for connections. Offsets in Spark's
  form: `positions`. Requests to the cluster: `offset_queries`.
- Reading: `ranges` divides the work, `fetching` is a task. `batch` reads once, and `stream`
  continues from its checkpoint. `reporting_stream` commits to a group, `member_stream` is a member.
  `data_loss` ends a query, or warns. `frames` is about batch frames that are used more than once.
- `stateful_queries` refuses stateful queries that are members.
- Writing: `writing` is the work of tasks and driver, `row_spool` stores unsent rows, `row_sender`
  has the producer.
- `files` reads segment files without a broker. `range_reader` reads the ranges of `readRanges`.
- Columns: `avro`, `json_schema` and `protobuf` are `registry_columns` with a schema registry.
- Processes: `background` runs the client in Spark's processes, `workers` tunes those of tasks.
  `logs` formats their log lines. `metrics` come from the progress of queries.
- `registration` adds the source to a session, and `startup` to the path of its Python processes.
  `session` and `pipeline` start Spark.
"""

from kohort.util.kio import import_kio

import_kio()  # before anything else imports kio

from kohort.spark.frames import refreshed  # noqa: E402
from kohort.spark.range_reader import RangeReader  # noqa: E402
from kohort.spark.registration import register  # noqa: E402
from kohort.spark.source import KohortDataSource  # noqa: E402
from kohort.spark.stateful_queries import validate_starts  # noqa: E402

validate_starts()

__all__ = ["KohortDataSource", "RangeReader", "refreshed", "register"]
