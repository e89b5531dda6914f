"""`.write.format("kohort")` and `.writeStream.format("kohort")`: rows to records.

The columns are those of Spark's Kafka sink. Each task sends its own rows, with an idempotent
producer: within a task every record is in its partition once, in order. A task that Spark repeats
sends its rows again, so a write is at least once, as with Spark's sink.

If rows have a `partition`, all rows of a task are checked before the first one is sent. Spark's
tasks do not know of each other. They therefore pass their rows to the driver (`row_spool`), which
sends them when every task has checked its partitions: no record is written if a single one is
wrong. A task with many rows sends them itself if it runs on another machine than the driver.

With `delivery=exactly_once` all tasks pass all their rows to the driver, encoded
(`encoded_batches`). The driver sends them in one transaction (`transaction`).
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kohort.errors import KohortError
from kohort.spark import background
from kohort.spark.error_messages import cause_first
from kohort.spark.row_spool import RowSpool, SpoolDirectory, read_file, read_packed
from kohort.spark.sink_offsets import MemberPlan, member_plan
from kohort.spark.workers import TaskObject
from kohort.spark.write_options import WriteOptions
from kohort.spark.write_rows import by_topic, validate_partitions

if TYPE_CHECKING:
    from kohort.spark.micro_batches import MicroBatch
    from kohort.spark.row_sender import RowSender

HELD_BYTES: Final = 256 * 1024
"""Largest size of rows with a `partition` that travel in the message of a finished task."""
RENEWAL_S: Final = 5.0
"""How long to wait for a generation in which the member keeps its partitions, in seconds."""
_QUERY_ID: Final = "sql.streaming.queryId"
"""Property that Spark sets for the tasks of a streaming query (StreamExecution.QUERY_ID_KEY)."""
SPOOL_BYTES: Final = 64 * 1024 * 1024
"""Size from which rows that a task sends itself wait on disk."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """Message of a finished task to the driver, with its unsent rows."""

    held: bytes = b""
    """Unsent rows as an Arrow stream."""
    file: str | None = None
    """Path of a file with unsent rows, instead of `held`."""
    spool_directory: SpoolDirectory | None = None
    """Directory of the file. In a stream, the driver's own directory is not that of the tasks."""
    query_id: str | None = None
    """Id of the streaming query; None with at_least_once."""
    plan_token: str | None = None
    """Token of the member's plan; None without `transactionalSink`."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Common part of the writers of batches and of streams; picklable."""

    options: WriteOptions
    columns: tuple[str, ...]
    spool_directory: SpoolDirectory
    plan_token: str | None = None
    """Token at the time when the micro-batch was planned. Tasks bring it to the driver."""

    def task(self, batches: Iterable[Any]) -> Written:
        """Write the rows of one task.

        Raises ConfigError for rows without a topic or of a partition that does not exist,
        KafkaError, GaveUpError.
        """
        chosen = (batch.select(list(self.columns)) for batch in batches)
        if self.options.transactional_id is not None:
            return self._hand_over(chosen)
        from kohort.spark.row_sender import RowSender  # LLVM, which only tasks need

        with RowSender(self.options) as sending:
            if "partition" in self.columns:
                return self._send_validated(sending, chosen)
            self._send(sending, chosen)
            return Written()

    def commit(
        self, messages: Sequence[WriterCommitMessage | None], number: int | None = None
    ) -> None:
        """Send the rows that the tasks handed over; all of them have ended.

        `number`: of the micro-batch, None in a batch. Raises as `task`, and KohortError.
        """
        written = [message for message in messages if isinstance(message, Written)]
        unsent = [message for message in written if message.held or message.file]
        try:
            if self.options.transactional_id is None:
                self._send_held(unsent)
            elif number is not None:
                self._send_micro_batch(written, unsent, number)
            elif unsent:
                self._send_in_transaction(unsent, None)
        finally:
            self._sweep(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Discard the rows that the tasks handed over, because one of them failed."""
        self._sweep(messages)

    def _sweep(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        directories = {
            message.spool_directory for message in messages if isinstance(message, Written)
        }
        for directory in directories | {self.spool_directory}:
            if directory is not None:
                directory.sweep()

    def _send_held(self, unsent: Sequence[Written]) -> None:
        if unsent:
            from kohort.spark.row_sender import RowSender

            with RowSender(self.options) as sending:
                self._send(sending, _all_rows(unsent))

    def _send_micro_batch(
        self, written: Sequence[Written], unsent: Sequence[Written], number: int
    ) -> None:
        """Send the `unsent` rows, unless the micro-batch of this number is already committed."""
        from kohort.spark.micro_batches import UNKNOWN, MicroBatch, read_plan
        from kohort.spark.transaction import is_committed

        query_id = written[0].query_id
        if query_id is None:
            raise KohortError("Spark did not pass the id of the query to its tasks")
        token = written[0].plan_token
        if token is not None:
            self._send_of_member(unsent, MicroBatch(query_id, number, UNKNOWN), token)
            return
        micro_batch = MicroBatch(query_id, number, read_plan(self.options, number))
        if not is_committed(self.options, micro_batch) and unsent:
            self._send_in_transaction(unsent, micro_batch)

    def _send_of_member(
        self, unsent: Sequence[Written], micro_batch: "MicroBatch", token: str
    ) -> None:
        """Send the `unsent` rows with the offsets of the plan, all or nothing."""
        from kohort.spark.transaction import validate_sink

        plan = member_plan(self.options.transactional_id or "", token)
        if plan.offsets:
            validate_sink(self.options, plan)
            self._send_in_transaction(unsent, micro_batch if unsent else None, plan)
        elif unsent:
            raise KohortError(
                "a micro-batch has rows but no records of the member: with transactionalSink a "
                "query may read no other stream. None of the rows is written"
            )

    def _send_in_transaction(
        self,
        unsent: Sequence[Written],
        micro_batch: "MicroBatch | None",
        plan: MemberPlan | None = None,
    ) -> None:
        from kohort.spark import transaction

        while True:
            try:
                transaction.write(self.options, _all_rows(unsent), micro_batch, plan)
                return
            except transaction.LostPartitionsError:
                assert plan is not None
                if (plan := plan.renewed(RENEWAL_S)) is None:
                    raise

    def _send(self, sending: "RowSender", batches: Iterable[Any]) -> None:
        for batch in batches:
            for topic, rows in by_topic(batch, self.options.topic):
                sending.send(topic, rows)

    def _send_validated(self, sending: "RowSender", batches: Iterable[Any]) -> Written:
        """Validate all rows, then hand them to the driver.

        Many rows on another machine than the driver's are sent here.
        """
        is_local = self.spool_directory.reaches()
        with RowSpool(HELD_BYTES if is_local else SPOOL_BYTES, self.spool_directory) as spool:
            self._spool_validated(sending, batches, spool)
            if spool.size <= HELD_BYTES:
                return Written(held=spool.packed())
            if is_local:
                return Written(file=spool.handed_over(), spool_directory=self.spool_directory)
            self._send(sending, spool)
            return Written()

    def _spool_validated(
        self, sending: "RowSender", batches: Iterable[Any], spool: RowSpool
    ) -> None:
        for batch in batches:
            for topic, rows in by_topic(batch, self.options.topic):
                validate_partitions(topic, rows, sending.count)
            spool.add(batch)

    def _hand_over(self, batches: Iterable[Any]) -> Written:
        """Hand all rows to the driver, encoded: by a file, or in the message from another machine.

        Raises as `task`.
        """
        from kohort.spark.encoded_batches import pack
        from kohort.spark.row_sender import RowEncoder

        encoder = RowEncoder(self.options, background.run(background.cluster(self.options.kafka)))
        is_local = self.spool_directory.reaches()
        written = Written(query_id=task_property(_QUERY_ID), plan_token=self.plan_token)
        with RowSpool(HELD_BYTES if is_local else sys.maxsize, self.spool_directory) as spool:
            for batch in batches:
                spool.add(pack(encoder, self.options, batch))
            if spool.size > HELD_BYTES and is_local:
                written = replace(
                    written, file=spool.handed_over(), spool_directory=self.spool_directory
                )
            else:
                written = replace(written, held=spool.packed())
        return written


def _all_rows(unsent: Iterable[Written]) -> Iterator[Any]:
    return (batch for message in unsent for batch in _rows(message))


def _rows(written: Written) -> Iterator[Any]:
    return read_packed(written.held) if written.file is None else read_file(written.file)


def task_property(name: str) -> str | None:
    """A property that Spark has set for this task; None without Spark."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


@cause_first
class BatchWriter(TaskObject, DataSourceArrowWriter):
    """`write` runs in the workers, `commit` and `abort` on the driver."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writing.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.abort(messages)
