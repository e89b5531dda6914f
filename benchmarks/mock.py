"""Run librdkafka's mock cluster as a server: `python -m benchmarks.mock FILE`.

It writes its port to FILE and sleeps.
"""

import sys
import time
from pathlib import Path

from confluent_kafka import Producer


def main() -> None:
    """Serve until killed."""
    # The logger is asked for nothing: what the mock does is not of interest here.
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced.by.the.mock"})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    target = Path(sys.argv[1])
    target.with_suffix(".new").write_text(str(broker.port))
    target.with_suffix(".new").rename(target)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
