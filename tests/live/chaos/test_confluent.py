"""A member of librdkafka that cannot go on: another instance takes its place."""

import random
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from interop.processes import PATIENCE_S
from kohort.errors import ErrorCode
from kohort.protocol.messages import encode, frame_head, read_header, response
from live.chaos.confluent import consume
from live.chaos.ledger import Ledger
from live.chaos.settings import GROWING, SERVER_SETTINGS, MemberPlan
from live.client.brokers import Site, opened
from peers.kafka import VERSION
from waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

OFFSET_FETCH = 9
MEMBER = MemberPlan("confluent", "new", 1, ("consumer",), life_seconds=(1_000, 1_000))
SETTINGS = {name: value for name, value in SERVER_SETTINGS.items() if name.startswith("group.")}


# Client and server of others are for the long run.
BROKER = pytest.mark.parametrize(
    "broker", ["kohort", pytest.param(f"kafka-{VERSION}", marks=pytest.mark.long)]
)


class Run:
    """One member, from `start` to the end of the block."""

    def __init__(self, site: Site) -> None:
        self.site, self.ledger = site, Ledger()
        self._stop = threading.Event()
        arguments = MEMBER, site.address, self.ledger, self._stop, random.Random(1)
        self._thread = threading.Thread(target=consume, args=arguments)
        self.admin = AdminClient({"bootstrap.servers": site.server.address})
        for topic in MEMBER.topics:
            partitions = 1 if topic == GROWING else 3
            self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": site.server.address})
        producer.produce(GROWING, b"1", partition=0)
        assert producer.flush(PATIENCE_S) == 0

    def start(self) -> None:
        self._thread.start()

    def wait_until(self, done: Callable[[], bool]) -> None:
        wait_until(done, lambda: str(self.ledger))

    def end(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_S)


@pytest.fixture
def run(tmp_path, broker):
    with opened(broker, tmp_path, SETTINGS) as site:
        run = Run(site)
        try:
            yield run
        finally:
            run.end()


@BROKER
def test_a_member_that_lost_its_query_of_offsets_is_replaced(run):
    with run.site.door.losing(MEMBER.name, OFFSET_FETCH) as lost:
        run.start()
        run.wait_until(lost.is_set)
        # The assignment changes, while the member waits for its offsets.
        run.admin.create_partitions([NewPartitions(GROWING, 2)])[GROWING].result(PATIENCE_S)
        run.wait_until(lambda: len(run.ledger.owned) > 1)
    run.wait_until(lambda: bool(run.ledger.read))
    assert run.ledger.replaced == {MEMBER.name: 1}
    assert not run.ledger.violations


@BROKER
def test_a_member_whose_query_of_offsets_was_refused_is_replaced(run):
    with run.site.door.responding(MEMBER.name, OFFSET_FETCH, not_coordinator) as refused:
        run.start()
        run.wait_until(refused.is_set)
    run.wait_until(lambda: bool(run.ledger.read))
    assert run.ledger.replaced.keys() == {MEMBER.name}  # its successor may be refused, too
    assert not run.ledger.violations


def not_coordinator(frame: bytes) -> bytes:
    """The response of a node that no longer coordinates the group."""
    api_key, version, correlation_id, *_ = read_header(len(frame).to_bytes(4) + frame)
    error = {"error_code": ErrorCode.not_coordinator}
    group = {"group_id": MEMBER.group, **error}
    body = encode(response(api_key, version, groups=[group], **error))
    return frame_head(api_key, version, correlation_id, len(body))[4:] + body
