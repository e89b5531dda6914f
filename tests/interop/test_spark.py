"""Spark's own Kafka connector, in batches and in streams, reading and writing; it brings no group
of its own.
"""

import json
import queue
import signal
from pathlib import Path
from typing import Any

import pytest

from interop.built import SPARK, spark_job
from interop.processes import PATIENCE_S, Process
from interop.targets import Target
from interop.trial import RUN, Trial

pytestmark = [pytest.mark.interop, pytest.mark.clients]

PARTITIONS = 2
ROWS = 200
"""Of each batch that the job writes: one with each of five codecs, and a late one."""


@pytest.fixture
def spark() -> None:
    if reason := SPARK.missing():
        pytest.skip(f"Spark: {reason}")


class Job:
    """A program of `interop/spark` as a process, and what it tells of each step."""

    def __init__(self, name: str, topic: str, address: str, directory: Path) -> None:
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        command = spark_job(
            name, bootstrap=address, topic=topic, checkpoint=str(directory / "checkpoint")
        )
        self.process = Process("spark", command, directory / "spark.log", self._hear)

    def _hear(self, line: str) -> None:
        if line.startswith("{"):
            self._said.put(json.loads(line))

    def step(self, name: str) -> dict[str, Any]:
        try:
            said = self._said.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError(
                f"no step {name} after {PATIENCE_S:g} s\n{self.process.tail()}"
            ) from None
        assert said.pop("step") == name
        return said

    def go_on(self) -> None:
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


def test_spark_reads_and_writes(spark: None, restartable: Target, tmp_path: Path) -> None:
    """`read`, `write`, `readStream`, `writeStream`, every codec; the server is killed between two
    runs of a stream.
    """
    topic = f"spark-{RUN}"
    with Trial(restartable, tmp_path, "spark") as trial:
        trial.create_topic(topic, PARTITIONS)
        trial.create_topic(f"{topic}-copy", PARTITIONS)
    job = Job("job", topic, restartable.address, tmp_path)
    try:
        written = {"rows": 5 * ROWS, "values": 5 * ROWS, "whole": True}
        assert job.step("batch") == {**written, "headers": ["spark"]}
        assert job.step("range") == {"rows": 15, "values": 15, "whole": True}
        assert job.step("timestamp") == {"rows": 0}
        assert job.step("stream") == {"batches": [2 * ROWS, 2 * ROWS, ROWS]}
        restartable.restart(signal.SIGKILL)
        job.go_on()
        assert job.step("stream again") == {"batches": [ROWS]}
        assert job.step("copied") == {"rows": 6 * ROWS, "values": 6 * ROWS, "whole": True}
        assert job.process.wait(PATIENCE_S) == 0
    finally:
        job.process.popen.kill()


def test_a_checkpoint_goes_on_in_both_directions(
    spark: None, restartable: Target, tmp_path: Path
) -> None:
    """Between Spark's connector and Kohort's source, also where a micro-batch is to be repeated."""
    topic = f"checkpoint-{RUN}"
    with Trial(restartable, tmp_path, "spark") as trial:
        trial.create_topic(topic, PARTITIONS)
    job = Job("checkpoints", topic, restartable.address, tmp_path)
    try:
        assert job.step("kafka") == {"batches": [[0, 0]]}
        assert job.step("kohort") == {"batches": [[1, 1]]}
        assert job.step("kohort") == {"batches": None}
        assert job.step("kafka") == {"batches": [[2, 2], [3, 3]]}
        assert job.step("kafka") == {"batches": None}
        assert job.step("kohort") == {"batches": [[4, 4], [5, 5]]}
        assert job.process.wait(PATIENCE_S) == 0
    finally:
        job.process.popen.kill()
