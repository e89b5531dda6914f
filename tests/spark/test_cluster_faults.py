"""A query that is a member of a group, on a cluster of nodes that fail, and whose database does."""

import random
import signal

import pytest
from confluent_kafka import Producer

from live.cluster.target import ClusterTarget
from spark.servers import SETTINGS
from spark.streams import Stream, wait_for
from spark.topics import Topics

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1_500)]

PARTITIONS = 4
RECORDS_A_FAULT = 200


@pytest.mark.parametrize("faults", [4, pytest.param(40, marks=pytest.mark.long)])
def test_a_query_goes_on_by_itself(session, tmp_path, faults):
    target = ClusterTarget(
        tmp_path, topics={"orders": PARTITIONS}, seed=random.randrange(1 << 32), settings=SETTINGS
    )
    try:
        Topics(target.address).create("orders", PARTITIONS)
        options = {"subscribe": "orders", "startingOffsets": "earliest", "group.id": "spark"}
        stream = Stream(session, target.address, tmp_path, **options)
        query = stream.start(processingTime="100 milliseconds")
        producer = Producer(
            {
                "bootstrap.servers": target.address,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        for _ in range(faults):
            for number in range(RECORDS_A_FAULT):
                producer.produce("orders", b"%d" % number, partition=number % PARTITIONS)
            target.restart(signal.SIGKILL)
        assert producer.flush(120) == 0
        sent = faults * RECORDS_A_FAULT
        wait_for(lambda: len(stream.rows()) >= sent, "read", query)
        query.stop()
        each = [*range(sent // PARTITIONS)]
        assert {p: sorted(found) for p, found in stream.offsets().items()} == dict.fromkeys(
            range(PARTITIONS), each
        )
        assert not target.check()
    finally:
        target.stop()
