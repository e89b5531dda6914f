"""Streaming queries in tests: into memory, run until what is there has been read, or until
something holds.
"""

import json
import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pyarrow.parquet import ParquetFile

_numbers = count()
PROGRAM_S = 600.0
"""For a program that starts a Spark of its own, on a busy machine too."""
PATIENCE_S = 120.0


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes | None


class Stream:
    """A streaming read with a checkpoint of its own; what it got is rows of a table."""

    def __init__(self, session: Any, address: str, checkpoint: Path, **options: Any) -> None:
        given = {
            name.replace("__", "."): value if isinstance(value, str) else json.dumps(value)
            for name, value in options.items()
        }
        self._session = session
        self._options = {"kafka.bootstrap.servers": address} | given
        self.directory = checkpoint

    def frame(self) -> Any:
        return self._session.readStream.format("kohort").options(**self._options).load()

    def start(self, **trigger: Any) -> Any:
        """A query that writes Parquet, whose sink is exactly once with the checkpoint."""
        writer = (
            self.frame()
            .select("topic", "partition", "offset", "value")
            .writeStream.format("parquet")
        )
        writer = writer.option("path", str(self.directory / "table"))
        writer = writer.option("checkpointLocation", str(self.directory / "checkpoint"))
        return writer.trigger(**trigger).start() if trigger else writer.start()

    def write_to(self, topic: str, sink: str | None = None, **trigger: Any) -> Any:
        """A query that writes keys and values to a topic, exactly once, by the `sink` of that name.

        By default it is the topic's.
        """
        writer = (
            self.frame()
            .select("key", "value")
            .writeStream.format("kohort")
            .options(
                **{
                    "kafka.bootstrap.servers": self._options["kafka.bootstrap.servers"],
                    "topic": topic,
                    "delivery": "exactly_once",
                    "kafka.transactional.id": sink or topic,
                    # Else another query waits for a minute for the end of a dead driver's one.
                    "kafka.transaction.timeout.ms": "10000",
                }
            )
        )
        writer = writer.option("checkpointLocation", str(self.directory / "checkpoint"))
        return writer.trigger(**trigger).start()

    def run(self) -> list[dict[str, Any]]:
        """Read what there is (Trigger.AvailableNow); the progress of each micro-batch."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(PATIENCE_S), query.lastProgress
        return [dict(each.json and json.loads(each.json)) for each in query.recentProgress]

    def rows(self) -> list[Row]:
        """All that was written, in order.

        Without Spark: a query of it for each look takes a hundred times as long.
        """
        columns = [*Row._fields]
        return sorted(
            Row(**row)
            for file in self._files()
            for row in ParquetFile(file).read(columns).to_pylist()
        )

    def _files(self) -> Iterable[Path]:
        """Those that Spark reads: the ones in the log of the streaming sink, where there is one."""
        table = self.directory / "table"
        if not (table / "_spark_metadata").exists():
            return table.glob("[!._]*.parquet")
        batches = sorted((table / "_spark_metadata").glob("[0-9]*"), key=lambda at: int(at.stem))
        whole = [at for at, each in enumerate(batches) if each.suffix == ".compact"]
        written = batches[max(whole, default=0) :]
        entries = [
            json.loads(line) for each in written for line in each.read_text().splitlines()[1:]
        ]
        return [Path(unquote(urlsplit(entry["path"]).path)) for entry in entries]

    def offsets(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for row in self.rows():
            found.setdefault(row.partition, []).append(row.offset)
        return found


def wait_for(holds: Any, what: str, query: Any = None, within_s: float = PATIENCE_S) -> None:
    """Until `holds()` is true. Raises AssertionError after `within_s`, or when the query has
    failed.
    """
    deadline = time.monotonic() + within_s
    while not holds():
        assert query is None or query.exception() is None, query.exception()
        assert time.monotonic() < deadline, f"not {what} within {within_s:g} s"
        time.sleep(0.05)
