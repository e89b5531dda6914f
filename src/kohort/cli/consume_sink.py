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
    """Records from the first that is not older than this on are not wanted, in each partition."""
    quiet: bool = False
    deserializers: Deserializers | None = None
    goes_on: bool = False
    """Whether a record that cannot be deserialized is only reported."""
    written: int = 0
    stopped: set[TopicPartition] = field(default_factory=set)
    """Partitions in which `stop_ms` was reached."""

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.written >= self.limit

    async def take(self, partition: TopicPartition, records: Sequence[Record]) -> int | None:
        """Write records up to the limit; the offset behind the last one, None if all were written.

        Raises BrokenPipeError, OSError, and DeserializationError after the records before that one.
        """
        wanted = self._wanted(partition, records)
        write = self.write_record
        if self.deserializers is not None:
            await self._take_deserialized(wanted, self.deserializers)
        else:
            self.written += len(wanted)
            await self.output.write(b"".join([write(record) for record in wanted]))
        if len(wanted) == len(records):
            return None
        return wanted[-1].offset + 1 if wanted else records[0].offset

    async def _take_deserialized(
        self, records: Sequence[Record], deserializers: Deserializers
    ) -> None:
        lines = []
        try:
            for record in records:
                self.written += 1
                try:
                    lines.append(self.write_record(await deserializers.deserialize(record)))
                except DeserializationError as error:
                    if not self.goes_on:
                        raise
                    print_line(f"% ERROR: {error}", to=sys.stderr)
        finally:
            await self.output.write(b"".join(lines))

    def _wanted(self, partition: TopicPartition, records: Sequence[Record]) -> Sequence[Record]:
        if self.stop_ms is not None:
            young = next(
                (at for at, record in enumerate(records) if record.timestamp >= self.stop_ms), None
            )
            if young is not None:
                self.stopped.add(partition)
                self.print_message(
                    f"Reached stop timestamp for topic {partition.topic} [{partition.partition}]"
                )
                records = records[:young]
        return records if self.limit is None else records[: max(self.limit - self.written, 0)]

    def print_end(self, partition: TopicPartition, offset: int | None, *, exiting: bool) -> None:
        """A partition has nothing more for now."""
        rest = ": exiting" if exiting else ""
        self.print_message(
            f"Reached end of topic {partition.topic} [{partition.partition}] at offset "
            f"{offset}{rest}"
        )

    def print_message(self, message: str) -> None:
        """As kcat, with "% " in front; nothing with -q."""
        if not self.quiet:
            print_line(f"% {message}", to=sys.stderr)
