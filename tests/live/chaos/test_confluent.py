"""A member of librdkafka that cannot go on: another instance takes its place."""

import random
import threading

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from interop.processes import SOON, poll_until
from live.chaos.confluent import consume
from live.chaos.ledger import Ledger
from live.chaos.settings import GROWING, SERVER_SETTINGS, MemberPlan
from live.client.brokers import opened
from peers.kafka import VERSION

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

OFFSET_FETCH = 9
MEMBER = MemberPlan("confluent", "new", 1, ("consumer",), life_seconds=(1_000, 1_000))
SETTINGS = {name: value for name, value in SERVER_SETTINGS.items() if name.startswith("group.")}


@pytest.mark.parametrize("broker", ["kohort", f"kafka-{VERSION}"])
def test_a_member_that_lost_its_query_of_offsets_is_replaced(tmp_path, broker):
    ledger, stop = Ledger(), threading.Event()

    def told() -> str:
        return f"replaced: {ledger.replaced}, read: {ledger.read}, {ledger.violations}"

    with opened(broker, tmp_path, SETTINGS) as site:
        admin = AdminClient({"bootstrap.servers": site.server.address})
        for topic in MEMBER.topics:
            partitions = 1 if topic == GROWING else 3
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SOON)
        produce(site.server.address, GROWING, b"1")
        arguments = MEMBER, site.address, ledger, stop, random.Random(1)
        member = threading.Thread(target=consume, args=arguments)
        with site.door.losing(MEMBER.name, OFFSET_FETCH) as lost:
            member.start()
            try:
                poll_until(lost.is_set, told, SOON)
                # The assignment changes, while the member waits for its offsets.
                admin.create_partitions([NewPartitions(GROWING, 2)])[GROWING].result(SOON)
                poll_until(lambda: len(ledger.owned) > 1, told, SOON)
            except BaseException:
                stop.set()
                raise
        try:
            poll_until(lambda: bool(ledger.read), told, SOON)
        finally:
            stop.set()
            member.join(SOON)
    assert ledger.replaced == {MEMBER.name: 1}
    assert not ledger.violations


def produce(address: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": address})
    producer.produce(topic, value, partition=0)
    assert producer.flush(SOON) == 0
