"""Spark Connect: the client has no Spark of its own, and the source runs beside the server."""

import os
import subprocess
import sys

import pytest

from spark.servers import KOHORT
from spark.streams import PROGRAM_S

pytest.importorskip("grpc", reason="Spark Connect needs grpcio and grpcio-status")
pytestmark = [pytest.mark.clients, pytest.mark.timeout(2 * PROGRAM_S)]

PROGRAM = """
import sys
from pyspark.sql import SparkSession

address, directory = sys.argv[1:]
servers = {"kafka.bootstrap.servers": address}
spark = SparkSession.builder.remote("local[2]").getOrCreate()
rows = spark.range(10).selectExpr("cast(id as string) value")
rows.write.format("kohort").options(**servers, topic="connected").mode("append").save()
read = spark.read.format("kohort").options(**servers)
assert read.option("subscribe", "connected").load().count() == 10

def stream(**options):
    found = spark.readStream.format("kohort").options(**servers, subscribe="connected", **options)
    return found.option("startingOffsets", "earliest").load()

def run(writer, name):
    writer = writer.option("checkpointLocation", f"{directory}/{name}").trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()

run(stream().writeStream.format("kohort").options(**servers, topic="copied"), "copy")
assert spark.read.format("kohort").options(**servers, subscribe="copied").load().count() == 10

def save(rows, batch):
    rows.select("value").write.mode("append").parquet(f"{directory}/table")

member = stream(**{"group.id": "connected"})
run(member.writeStream.foreachBatch(save), "member")
assert spark.read.parquet(f"{directory}/table").count() == 10
print("all of it")
spark.stop()
"""


@pytest.mark.parametrize(
    "topics", [KOHORT, pytest.param("kafka", marks=pytest.mark.long)], indirect=True
)
def test_reads_writes_streams_and_members(java, topics, tmp_path):
    for name in ("connected", "copied"):
        topics.create(name, 2)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, topics.address, str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )
    assert done.stdout.endswith("all of it\n"), done.stderr[-3000:]
    committed = topics.committed("connected")["connected"]
    assert sum(committed.values()) == 10
