"""Log lines of the process in which a streaming source lives."""

import os
import re
import subprocess
import sys

import pytest

SOURCE = """
import logging
from kohort.spark import KohortDataSource

options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders"}
source = KohortDataSource(options)
for _ in range(2):
    source.streamReader(source.schema())
logger = logging.getLogger("kohort.spark")
logger.info("group etl: generation 3")
logger.warning("group etl: fenced")
"""


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("", [r"WARNING kohort\.spark: group etl: fenced"]),
        (
            "info",
            [r"INFO kohort\.spark: group etl: generation 3",
             r"WARNING kohort\.spark: group etl: fenced"],
        ),
    ],
)  # fmt: skip
def test_lines_have_time_and_level_as_those_of_spark(level, told):
    done = subprocess.run(
        [sys.executable, "-c", SOURCE],
        env={**os.environ, "KOHORT_SPARK_LOG_LEVEL": level},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert len(lines) == len(told), done.stderr
    for line, pattern in zip(lines, told, strict=True):
        assert re.fullmatch(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d " + pattern, line)
