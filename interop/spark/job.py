"""Spark's own Kafka connector: batches and streams, reads and writes.

    python job.py bootstrap=HOST:PORT topic=NAME jars=FILE,… checkpoint=DIRECTORY

A batch writes to `topic` and a stream reads from it; the stream writes to `topic`-copy. Each step
prints its result as a line of JSON. Between the two runs of the stream the program waits for a line
on stdin, so that the server can restart.
"""

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROWS = 200


def say(step: str, **seen: Any) -> None:
    print(json.dumps({"step": step, **seen}), flush=True)


class Job:
    def __init__(self, options: dict[str, str]) -> None:
        self.topic = options["topic"]
        self.checkpoint = options["checkpoint"]
        self.servers = {"kafka.bootstrap.servers": options["bootstrap"]}
        self.spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", options["jars"])
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "768m")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("ERROR")

    def write(self, name: str, codec: str) -> None:
        """Write a batch of rows with keys and a header."""
        rows = self.spark.range(ROWS).select(
            f.col("id").cast("string").alias("key"),
            f.concat(f.lit(f"{name}-"), f.col("id").cast("string")).alias("value"),
            f.array(f.struct(f.lit("by").alias("key"), f.lit(b"spark").alias("value"))).alias(
                "headers"
            ),
        )
        settings = {"topic": self.topic, "kafka.compression.type": codec, "includeHeaders": "true"}
        rows.write.format("kafka").options(**self.servers, **settings).save()

    def read(self, topic: str, **ranges: str) -> DataFrame:
        settings = {"subscribe": topic, "includeHeaders": "true", **ranges}
        loaded = self.spark.read.format("kafka").options(**self.servers, **settings).load()
        return loaded.withColumns(
            {"key": f.col("key").cast("string"), "value": f.col("value").cast("string")}
        )

    def copy(self) -> list[int]:
        """Run the stream to the end of the topic; return the number of rows of each micro-batch."""
        source = {
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(2 * ROWS),
        }
        sink = {"topic": f"{self.topic}-copy", "checkpointLocation": self.checkpoint}
        rows = (
            self.spark.readStream.format("kafka")
            .options(**self.servers, **source)
            .load()
            .select("key", "value")
        )
        query = (
            rows.writeStream.format("kafka")
            .options(**self.servers, **sink)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [
            progress["numInputRows"]
            for progress in query.recentProgress
            if progress["numInputRows"]
        ]


def shape(rows: DataFrame) -> dict[str, Any]:
    """Number of rows and distinct values, and whether each partition's offsets are complete."""
    seen = rows.agg(f.count("*").alias("rows"), f.count_distinct("value").alias("values")).first()
    spans = rows.groupBy("partition").agg(
        (f.max("offset") - f.min("offset") + 1 == f.count("*")).alias("whole")
    )
    return {**seen.asDict(), "whole": all(row["whole"] for row in spans.collect())}


def main() -> None:
    options = dict(argument.split("=", 1) for argument in sys.argv[1:])
    job = Job(options)
    for codec in CODECS:
        job.write(codec, codec)
    everything = job.read(job.topic)
    headers = (
        everything.select(f.col("headers")[0]["value"].cast("string").alias("by"))
        .distinct()
        .collect()
    )
    say("batch", **shape(everything), headers=[row["by"] for row in headers])
    start, end = (
        json.dumps({job.topic: {"0": 10, "1": -2}}),
        json.dumps({job.topic: {"0": 25, "1": -1}}),
    )
    say(
        "range",
        **shape(
            job.read(job.topic, startingOffsets=start, endingOffsets=end).where("partition = 0")
        ),
    )
    moment = everything.agg(f.max("timestamp").alias("last")).first()["last"]
    later = int(moment.timestamp() * 1000) + 60_000
    nothing = job.read(
        job.topic, startingTimestamp=str(later), startingOffsetsByTimestampStrategy="latest"
    )
    say("timestamp", rows=nothing.count())
    say("stream", batches=job.copy())
    sys.stdin.readline()
    job.write("late", "zstd")
    say("stream again", batches=job.copy())
    say("copied", **shape(job.read(f"{job.topic}-copy")))
    job.spark.stop()


if __name__ == "__main__":
    main()
