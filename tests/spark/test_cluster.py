"""On a standalone cluster of a master and two workers: the ready pipeline, from the command line to
Parquet files, and reads and writes whose executors have other files than the driver, as if they
were on other machines.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pyarrow.dataset
import pyspark
import pytest

import kohort
import pyspark_kohort
from spark.servers import kohort_only
from spark.streams import PROGRAM_S
from spark.topics import NOW

pytestmark = [kohort_only, pytest.mark.clients, pytest.mark.timeout(2 * PROGRAM_S)]

DAY = "2023-11-14"
"""Of `NOW`."""


FAR = """
import sys
from kohort.spark.session import spark_session

master, address = sys.argv[1:]
servers = {"kafka.bootstrap.servers": address}

def write(rows, count, partition):
    there = rows.selectExpr(
        f"rpad(cast(id as string), {count}, 'x') value", f"cast({partition} as int) partition"
    )
    there.write.format("kohort").options(**servers, topic="far").mode("append").save()

with spark_session("far", master=master) as spark:
    rows = spark.range(3_000).repartition(2)
    write(rows, 1_000, "id % 3")
    read = spark.read.format("kohort").options(**servers, subscribe="far", minPartitions=4).load()
    ids = read.selectExpr(
        "partition", "cast(trim(trailing 'x' from cast(value as string)) as long) id"
    )
    found = sorted((row.id, row.partition) for row in ids.collect())
    assert found == [(id, id % 3) for id in range(3_000)], found[:10]
    try:
        write(rows, 10, "if(id = 2999, 7, 0)")
    except Exception as error:
        text = "a row is for partition 7 of topic far, which has the partitions 0 to 2"
        assert text in str(error), error
    else:
        raise AssertionError("it was taken")
    assert read.count() == 3_000, "nothing of the wrong rows"
"""


SUBMITTED = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "submitted"}
read = spark.read.format("kohort").options(**options).load()

def place(batches):
    import kohort
    import pyarrow
    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.record_batch({"place": [kohort.__file__], "rows": [rows]})

for row in read.select("value").mapInArrow(place, "place string, rows long").collect():
    print("read by", row.place, row.rows)
"""


def python(*arguments):
    command = [sys.executable, *map(str, arguments)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PROGRAM_S
    )


def kohort_spark(*arguments):
    return python("-m", "kohort", "spark", *arguments)


def rows(table):
    """(topic, partition, offset) → value, of all files; and that none comes twice."""
    found = pyarrow.dataset.dataset(table, partitioning="hive").to_table().to_pylist()
    by_place = {(row["topic"], row["partition"], row["offset"]): row["value"] for row in found}
    assert len(by_place) == len(found)
    return by_place


class Cluster(NamedTuple):
    """A standalone cluster: its master, and where its processes have their files."""

    master: str
    directory: Path
    temporary: Path
    """The directory of the executors' temporary files, which is not the driver's."""


@pytest.fixture(scope="module")
def cluster(java, tmp_path_factory):
    from spark.cluster import standalone

    directory, temporary = (tmp_path_factory.mktemp(name) for name in ("cluster", "elsewhere"))
    with standalone(directory, temporary=temporary) as master:
        yield Cluster(master, directory, temporary)


def test_a_topic_becomes_a_table_and_the_group_has_its_offsets(cluster, topics, tmp_path):
    topics.create("clustered", 4)
    topics.fill(
        "clustered",
        {partition: [b"%d-%d" % (partition, at) for at in range(100)] for partition in range(4)},
    )
    table = tmp_path / "table"
    for run in (1, 2):
        done = kohort_spark(
            "clustered", "-b", topics.address, "--group", "etl", "--to", table,
            "--master", cluster.master,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert len(rows(table)) == 400 * run
        assert topics.committed("etl") == {"clustered": dict.fromkeys(range(4), 100 * run)}
        assert topics.members("etl") == []
        more = {
            partition: [b"%d-%d" % (partition, at) for at in range(100, 200)]
            for partition in range(4)
        }
        topics.fill("clustered", more)
    for number in (0, 1):
        work = cluster.directory / f"work-{number}"
        assert list(work.glob("app-*")), "both workers ran executors"
    assert rows(table)["clustered", 3, 150] == "3-150"
    assert (table / f"date={DAY}").is_dir(), NOW


def test_rows_go_from_executors_to_brokers_and_back(cluster, topics):
    topics.create("far", 3)
    done = python("-c", FAR, cluster.master, topics.address)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list(cluster.temporary.glob("kohort-rows-*"))


def test_py_files_bring_the_package(cluster, topics, tmp_path):
    """`spark-submit --py-files` with the two packages in a zip file: driver and executors use it,
    and find the source.
    """
    topics.create("submitted", 1)
    topics.fill("submitted", {0: [b"v"] * 7})
    archive, program = tmp_path / "kohort.zip", tmp_path / "submitted.py"
    program.write_text(SUBMITTED)
    with zipfile.ZipFile(archive, "w") as packed:
        for package in (kohort, pyspark_kohort):
            home = Path(package.__file__).parent
            for path in sorted(home.rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    packed.write(path, path.relative_to(home.parent))
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [submit, "--master", cluster.master, "--py-files", archive, program, topics.address],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )
    places = re.findall(r"read by (\S+) 7", done.stdout)
    assert places, done.stderr[-3000:]
    assert "kohort.zip" in places[0]
