"""Formats, counts and writes consumed records, and reports on stderr in kcat's words."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from kohort.cli.byte_streams import ByteOutput
from kohort.cli.message_format import Write
from kohort.cli.output import print_line
from kohort.client.errors import DeserializationError
from kohort.client.record import Record
from kohort.client.serialization import Deserializers
from kohort.types import TopicPartition


@dataclass(slots=True)
class Sink:
    """The output, and how much more it takes."""

    output: ByteOutput
    write_record: Write
    limit: int | None = None
    """Records to write in all; None: without end."""
    stop_ms: int | None = None
    """In each partition, stop before the first record with at least this timestamp (ms)."""
    quiet: bool = False
    deserializers: Deserializers | None = None
    skips_undeserializable: bool = False
    """Report a record that cannot be deserialized, and continue."""
    written: int = 0
    stopped: set[TopicPartition] = field(default_factory=set)
    """Partitions in which `stop_ms` was reached."""

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.written >= self.limit

    async def write(self, partition: TopicPartition, records: Sequence[Record]) -> int | None:
        """Write records up to the limit.

        Returns the offset after the last written record, None if all were written. Raises
        BrokenPipeError, OSError; DeserializationError after writing the records before it.
        """
        selected = self._within_limits(partition, records)
        write_record = self.write_record
        if self.deserializers is not None:
            await self._write_deserialized(selected, self.deserializers)
        else:
            self.written += len(selected)
            await self.output.write(b"".join([write_record(record) for record in selected]))
        if len(selected) == len(records):
            return None
        return selected[-1].offset + 1 if selected else records[0].offset

    async def _write_deserialized(
        self, records: Sequence[Record], deserializers: Deserializers
    ) -> None:
        lines = []
        try:
            for record in records:
                self.written += 1
                try:
                    lines.append(self.write_record(await deserializers.deserialize(record)))
                except DeserializationError as error:
                    if not self.skips_undeserializable:
                        raise
                    print_line(f"% ERROR: {error}", to=sys.stderr)
        finally:
            await self.output.write(b"".join(lines))

    def _within_limits(
        self, partition: TopicPartition, records: Sequence[Record]
    ) -> Sequence[Record]:
        if self.stop_ms is not None:
            young = next(
                (index for index, record in enumerate(records) if record.timestamp >= self.stop_ms),
                None,
            )
            if young is not None:
                self.stopped.add(partition)
                self.print_message(
                    f"Reached stop timestamp for topic {partition.topic} [{partition.partition}]"
                )
                records = records[:young]
        return records if self.limit is None else records[: max(self.limit - self.written, 0)]

    def print_end(self, partition: TopicPartition, offset: int | None, *, exiting: bool) -> None:
        """Report the end of a partition."""
        ending = ": exiting" if exiting else ""
        self.print_message(
            f"Reached end of topic {partition.topic} [{partition.partition}] at offset "
            f"{offset}{ending}"
        )

    def print_message(self, message: str) -> None:
        """Print a message as kcat does, after "% "; nothing with -q."""
        if not self.quiet:
            print_line(f"% {message}", to=sys.stderr)
