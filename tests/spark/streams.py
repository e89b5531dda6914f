"""Streaming queries in tests: into memory, run until what is there has been read, or until
something holds.
"""

import json
import time
from itertools import count
from pathlib import Path
from typing import Any

_numbers = count()
PATIENCE_S = 60.0


class Stream:
    """A streaming read with a checkpoint of its own; what it got is rows of (partition, offset,
    value).
    """

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

    def rows(self) -> list[Any]:
        """All that was written, in order."""
        table = self.directory / "table"
        if not table.exists():
            return []
        return sorted(
            self._session.read.schema("topic string, partition int, offset long, value binary")
            .parquet(str(table))
            .collect()
        )

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
