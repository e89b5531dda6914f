"""`.write.format("kohort")` and `.writeStream.format("kohort")`: rows to records, by the columns of Spark's Kafka sink.

Each task sends its own rows, with an idempotent producer: within a task every record is in its partition once, in
order. A task that Spark runs again sends its rows again; so a write is at least once, as with Spark's sink.

Where rows have a `partition`, all rows of a task are looked at before the first one is sent: they wait in memory, many
on disk. Spark tells tasks nothing of each other; yet few rows are handed to the driver, which sends them when every
task has found its partitions: nothing at all is written then if a single one is wrong.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kohort.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from kohort.spark.sending import Sending

HELD_BYTES: Final = 256 * 1024
"""Of a task with a column `partition`: up to here its rows go over the driver."""
SPOOL_BYTES: Final = 64 * 1024 * 1024
"""From here on rows wait on disk."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    held: bytes = b""
    """Rows that are still to be sent, as an Arrow stream."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What the writers of batches and of streams do; picklable."""

    options: WriteOptions
    columns: tuple[str, ...]

    def task(self, batches: Iterable[Any]) -> Written:
        """Write the rows of one task. Raises ConfigError for rows that lead nowhere, KafkaError, GaveUpError."""
        from kohort.spark.sending import Sending  # numba, which only tasks need

        chosen = (batch.select(list(self.columns)) for batch in batches)
        with Sending(self.options) as sending:
            if "partition" in self.columns:
                return self._checked(sending, chosen)
            self._send(sending, chosen)
            return Written()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks have written: send what they handed over."""
        from kohort.spark.sending import Sending
        from kohort.spark.write_rows import unpacked

        held = [each.held for each in messages if isinstance(each, Written) and each.held]
        if held:
            with Sending(self.options) as sending:
                for stream in held:
                    self._send(sending, unpacked(stream))

    def _send(self, sending: "Sending", batches: Iterable[Any]) -> None:
        from kohort.spark.write_rows import by_topic

        for batch in batches:
            for topic, rows in by_topic(batch, self.options.topic):
                sending.send(topic, rows)

    def _checked(self, sending: "Sending", batches: Iterable[Any]) -> Written:
        """Look at all rows; then send them, or hand them to the driver if they are few."""
        from kohort.spark.write_rows import Spool, by_topic, validate_partitions

        spool = Spool(SPOOL_BYTES)
        for batch in batches:
            for topic, rows in by_topic(batch, self.options.topic):
                validate_partitions(topic, rows, sending.count)
            spool.add(batch)
        if spool.size <= HELD_BYTES:
            return Written(spool.packed())
        self._send(sending, spool)
        return Written()


class BatchWriter(DataSourceArrowWriter):
    """`write` runs in the workers, `commit` on the driver."""

    def __init__(self, options: WriteOptions, columns: tuple[str, ...]) -> None:
        self._writing = Writing(options, columns)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writing.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.commit(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The same for every micro-batch."""

    def __init__(self, options: WriteOptions, columns: tuple[str, ...]) -> None:
        self._writing = Writing(options, columns)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writing.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self._writing.commit(messages)
