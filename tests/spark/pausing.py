"""A data source that stops at a point of a micro-batch, for its driver to be killed there.

Processes of the driver and the test meet in a directory: a test writes the name of a point and a
number to `armed`. The first process there renames it to `reached`, which has its id, and goes on
when there is a file `go-NUMBER`, or when its parent has ended. It fails if the file says so.
"""

import json
import os
import time
from pathlib import Path

from kohort.client.produce.transactions import Transactions
from kohort.spark import KohortDataSource
from kohort.spark.member_stream import MemberStreamReader
from kohort.spark.stream import StreamReader
from kohort.spark.stream_writing import StreamWriter

POINTS = (
    "before the plan",
    "before the offset log",
    "after the offset log",
    "in a task",
    "after a task",
    "before InitProducerId",
    "after InitProducerId",
    "before the offsets",
    "after the offsets",
    "before EndTxn",
    "after EndTxn",
    "before the commit log",
)
IN_TASKS = ("in a task", "after a task")
FAILURE = "the test has it fail here"
IN_TRANSACTION = {
    "initialize": "InitProducerId",
    "commit_offsets": "the offsets",
    "commit": "EndTxn",
}
"""Methods of `Transactions`, and the requests that they send."""


class Points:
    """The test's side, and that of the driver."""

    def __init__(self, directory: Path) -> None:
        self.armed, self.reached = directory / "armed", directory / "reached"
        self._directory = directory
        self._number = 0

    def arm(self, point: str) -> None:
        self.reached.unlink(missing_ok=True)
        self._number += 1  # whoever stands at the last one may not have seen yet that it may go
        _write(self.armed, json.dumps([point, self._number]))

    def disarm(self) -> None:
        self.armed.unlink(missing_ok=True)
        self.go()

    def process(self) -> int:
        """The id of the one at the point."""
        return int(self.reached.read_text())

    def go(self) -> None:
        if not self._gone(self._number).exists():
            _write(self._gone(self._number), "")

    def fail(self) -> None:
        _write(self._gone(self._number), FAILURE)

    def _gone(self, number: int) -> Path:
        return self._directory / f"go-{number}"

    def at(self, point: str) -> None:
        try:
            armed, number = json.loads(self.armed.read_text())
            if armed != point:
                return
            own = self.reached.with_suffix(f".{os.getpid()}")
            self.armed.replace(own)
        except FileNotFoundError:
            return
        own.write_text(str(os.getpid()))
        own.replace(self.reached)
        parent, gone = os.getppid(), self._gone(number)
        while not gone.exists() and os.getppid() == parent:
            time.sleep(0.02)
        if gone.exists() and gone.read_text() == FAILURE:
            raise RuntimeError(FAILURE)


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def pausing(directory: Path) -> type:
    points = Points(directory)

    def at(point: str) -> None:
        points.at(point)

    def wrapped(method, request):
        async def paused(*args, **options):
            at(f"before {request}")
            result = await method(*args, **options)
            at(f"after {request}")
            return result

        return paused

    def reader_of(kind: type) -> type:
        class PausingReader(kind):
            def latestOffset(self, start, limit):  # noqa: N802
                at("before the plan")
                end = super().latestOffset(start, limit)
                if end != start:
                    at("before the offset log")
                return end

            def partitions(self, start, end):
                at("after the offset log")
                return super().partitions(start, end)

        return PausingReader

    class PausingWriter(StreamWriter):
        def write(self, iterator):
            at("in a task")
            written = super().write(iterator)
            at("after a task")
            return written

        def commit(self, messages, batchId):  # noqa: N803
            for name, request in IN_TRANSACTION.items():
                setattr(Transactions, name, wrapped(getattr(Transactions, name), request))
            super().commit(messages, batchId)
            at("before the commit log")

    class PausingDataSource(KohortDataSource):
        def streamReader(self, schema):  # noqa: N802
            reader = super().streamReader(schema)
            assert isinstance(reader, StreamReader)
            is_member = isinstance(reader, MemberStreamReader)
            return reader_of(MemberStreamReader if is_member else StreamReader)(reader.options)

        def streamWriter(self, schema, overwrite):  # noqa: N802
            writer = super().streamWriter(schema, overwrite)
            assert isinstance(writer, StreamWriter)
            return PausingWriter(writer._writing)

    return PausingDataSource
