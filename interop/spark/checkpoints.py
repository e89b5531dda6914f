"""One query by turns under Spark's own Kafka connector and under Kohort's, with one checkpoint.

    python checkpoints.py bootstrap=HOST:PORT topic=NAME jars=FILE,… checkpoint=DIRECTORY

Each step writes a row to each of two partitions and runs the query to the end of the topic. It
prints as a line of JSON the values that each micro-batch had, or null where the sink failed.
"""

import json
import os
import sys
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

STEPS = (
    ("kafka", True), ("kohort", True),
    ("kohort", False), ("kafka", True),
    ("kafka", False), ("kohort", True),
)  # fmt: skip
"""Format, and whether the sink works: the other format repeats a micro-batch that failed."""
PARTITIONS = 2


class Query:
    def __init__(self, options: dict[str, str]) -> None:
        self.topic, self.checkpoint = options["topic"], options["checkpoint"]
        self.servers = {"kafka.bootstrap.servers": options["bootstrap"]}
        self.spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", options["jars"])
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "768m")
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")

    def write(self, value: int) -> None:
        rows = self.spark.range(PARTITIONS).selectExpr(
            f"'{value}' value", "cast(id as int) partition"
        )
        rows.write.format("kafka").options(**self.servers, topic=self.topic).save()

    def run(self, format_: str, works: bool) -> list[list[int]] | None:
        found = []

        def sink(rows: Any, _batch: int) -> None:
            values = sorted(int(row.value) for row in rows.collect())
            if not works:
                raise RuntimeError("the sink fails")
            found.append(values)

        options = self.servers | {"subscribe": self.topic, "startingOffsets": "earliest"}
        if format_ == "kohort":
            options["checkpointTopicIds"] = "false"
        stream = self.spark.readStream.format(format_).options(**options).load().writeStream
        started = stream.option("checkpointLocation", self.checkpoint).foreachBatch(sink)
        query = started.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            return None
        return found


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # which finds Kohort's source
    query = Query(dict(argument.split("=", 1) for argument in sys.argv[1:]))
    for value, (format_, works) in enumerate(STEPS):
        query.write(value)
        print(json.dumps({"step": format_, "batches": query.run(format_, works)}), flush=True)
    query.spark.stop()


if __name__ == "__main__":
    main()
