"""`.writeStream.format("kohort")`: the writer of `writing`, for each micro-batch."""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from kohort.spark.bootstrap_check import validate_listening
from kohort.spark.error_messages import cause_first
from kohort.spark.workers import TaskObject
from kohort.spark.writing import Writing, task_property

_BATCH_ID: Final = "streaming.sql.batchId"
"""Property that Spark sets for the tasks of a micro-batch (MicroBatchExecution.BATCH_ID_KEY)."""


@cause_first
class StreamWriter(TaskObject, DataSourceStreamArrowWriter):
    """`write` runs in the workers, `commit` and `abort` on the driver."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if task_property(_BATCH_ID) == "0":  # later ones wait for brokers that restart
            validate_listening(self._writing.options.servers)
        return self._writing.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writing.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self._writing.abort(messages)
