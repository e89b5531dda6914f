"""A driver of its own: `driver.py ADDRESS DIRECTORY OPTIONS` runs a streaming query until it is
killed.

It tells the process id of its JVM as a line of JSON. DIRECTORY gets the table and the checkpoint.
With an option `to` it writes to that topic, exactly once; `dies` says at which point of a
micro-batch it kills itself, and `pauses` has the directory of `pausing`. `master` and `settings`
are of its session. With `restarts` a query that fails is started again in the session.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kohort.client.produce import Transaction
from kohort.spark import KohortDataSource
from kohort.spark.session import spark_session
from kohort.spark.stream_writing import StreamWriter
from spark.pausing import pausing
from spark.streams import Stream

SETTINGS = {
    "spark.driver.memory": "500m",
    # Else Spark refuses to go on from a kill during the first write to a checkpoint.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}


FATAL = 1
"""The micro-batch that the driver does not survive."""


def dying(point: str, jvm: int) -> type:
    """A data source that kills the driver `before` or `after` the commit of a transaction, or when
    all its rows are `sent`.
    """

    def die() -> None:
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    async def die_later(*_: object) -> None:
        await asyncio.sleep(1)  # the broker has the rows
        die()

    class DyingWriter(StreamWriter):
        def commit(self, messages, batchId):  # noqa: N803
            if batchId == FATAL and point == "before":
                die()
            if batchId == FATAL and point == "sent":
                Transaction.commit_offsets = die_later
            super().commit(messages, batchId)
            if batchId == FATAL:
                die()

    class DyingDataSource(KohortDataSource):
        def streamWriter(self, schema, overwrite):  # noqa: N802
            writer = super().streamWriter(schema, overwrite)
            assert isinstance(writer, StreamWriter)
            return DyingWriter(writer._writing)

    return DyingDataSource


def main() -> None:
    _, address, directory, given = sys.argv
    options = json.loads(given)
    to, dies, pauses = (options.pop(name, None) for name in ("to", "dies", "pauses"))
    master, settings = options.pop("master", "local[1]"), options.pop("settings", {})
    restarts = options.pop("restarts", False)
    with spark_session("driver", master=master, settings=SETTINGS | settings) as session:
        jvm = session.sparkContext._gateway.proc.pid
        print(json.dumps({"jvm": jvm}), flush=True)
        if dies is not None:
            session.dataSource.register(dying(dies, jvm))
        if pauses is not None:
            session.dataSource.register(pausing(Path(pauses)))
        reading = Stream(session, address, Path(directory), **options)
        trigger = {"processingTime": "100 milliseconds"}
        while True:
            try:
                query = reading.start(**trigger) if to is None else reading.write_to(to, **trigger)
                return query.awaitTermination()
            except (PySparkException, Py4JJavaError) as error:
                # The latter is of a start: Spark finds out then that its Python was killed.
                if not restarts:
                    raise
                print(error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
