"""On a standalone cluster of a master and two workers: the ready pipeline, from the command line to Parquet files."""

import os
import subprocess
import sys

import pyarrow.dataset
import pytest

from spark.servers import kohort_only
from spark.topics import NOW

pytestmark = [kohort_only, pytest.mark.clients, pytest.mark.timeout(280)]

DAY = "2023-11-14"
"""Of `NOW`."""


def kohort_spark(*arguments):
    command = [sys.executable, "-m", "kohort", "spark", *map(str, arguments)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def rows(table):
    """(topic, partition, offset) → value, of all files; and that none comes twice."""
    found = pyarrow.dataset.dataset(table, partitioning="hive").to_table().to_pylist()
    by_place = {(row["topic"], row["partition"], row["offset"]): row["value"] for row in found}
    assert len(by_place) == len(found)
    return by_place


def test_a_topic_becomes_a_table_and_the_group_has_its_offsets(java, topics, tmp_path):
    from spark.cluster import standalone

    topics.create("clustered", 4)
    topics.fill("clustered", {partition: [b"%d-%d" % (partition, at) for at in range(100)] for partition in range(4)})
    table = tmp_path / "table"
    with standalone(tmp_path) as master:
        for run in (1, 2):
            done = kohort_spark("clustered", "-b", topics.address, "--group", "etl", "--to", table, "--master", master)
            assert done.returncode == 0, done.stderr[-3000:]
            assert len(rows(table)) == 400 * run
            assert topics.committed("etl") == {"clustered": dict.fromkeys(range(4), 100 * run)}
            assert topics.members("etl") == []
            more = {partition: [b"%d-%d" % (partition, at) for at in range(100, 200)] for partition in range(4)}
            topics.fill("clustered", more)
        used = [path.name for number in (0, 1) for path in (tmp_path / f"work-{number}").glob("app-*")]
        assert len(used) >= 2, "both workers ran executors"
    assert rows(table)["clustered", 3, 150] == "3-150"
    assert (table / f"date={DAY}").is_dir(), NOW
