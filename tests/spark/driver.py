"""A driver of its own: `driver.py ADDRESS DIRECTORY OPTIONS` runs a streaming query until it is
killed.

It tells the process id of its JVM as a line of JSON. DIRECTORY gets the table and the checkpoint.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.spark.session import spark_session
from spark.streams import Stream

SETTINGS = {"spark.driver.memory": "500m"}


def main() -> None:
    _, address, directory, options = sys.argv
    with spark_session("driver", master="local[1]", settings=SETTINGS) as session:
        print(json.dumps({"jvm": session.sparkContext._gateway.proc.pid}), flush=True)
        reading = Stream(session, address, Path(directory), **json.loads(options))
        reading.start(processingTime="100 milliseconds").awaitTermination()


if __name__ == "__main__":
    main()
