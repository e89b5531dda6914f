"""A data source that stops at a point of a micro-batch, for its driver to be killed there.

Processes of the driver and the test meet in a directory: a test writes the name of a point to
`armed`. The first process there renames it to `reached`, and goes on when there is a file `go`, or
when its parent has ended.
"""

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
    "before InitProducerId",
    "after InitProducerId",
    "before the offsets",
    "after the offsets",
    "before EndTxn",
    "after EndTxn",
    "before the commit log",
)
IN_TRANSACTION = {
    "initialize": "InitProducerId",
    "commit_offsets": "the offsets",
    "commit": "EndTxn",
}
"""Methods of `Transactions`, and the requests that they send."""


class Points:
    """The test's side, and that of the driver."""

    def __init__(self, directory: Path) -> None:
        self.armed, self.reached, self.gone = (
            directory / name for name in ("armed", "reached", "go")
        )

    def arm(self, point: str) -> None:
        for path in (self.reached, self.gone):
            path.unlink(missing_ok=True)
        new = self.armed.with_suffix(".new")
        new.write_text(point)
        new.replace(self.armed)

    def disarm(self) -> None:
        self.armed.unlink(missing_ok=True)
        self.go()

    def go(self) -> None:
        self.gone.touch()

    def at(self, point: str) -> None:
        try:
            if self.armed.read_text() != point:
                return
            self.armed.replace(self.reached)
        except FileNotFoundError:
            return
        parent = os.getppid()
        while not self.gone.exists() and os.getppid() == parent:
            time.sleep(0.02)


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
            return super().write(iterator)

        def commit(self, messages, batchId):  # noqa: N803
            for name, request in IN_TRANSACTION.items():
                setattr(Transactions, name, wrapped(getattr(Transactions, name), request))
            super().commit(messages, batchId)
            at("before the commit log")

    class PausingDataSource(KohortDataSource):
        def streamReader(self, schema):  # noqa: N802
            reader = super().streamReader(schema)
            is_member = isinstance(reader, MemberStreamReader)
            return reader_of(MemberStreamReader if is_member else StreamReader)(reader.options)

        def streamWriter(self, schema, overwrite):  # noqa: N802
            return PausingWriter(super().streamWriter(schema, overwrite)._writing)

    return PausingDataSource
