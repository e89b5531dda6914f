"""Every attempt that is repeated is logged with its reason, number and pause, and only there."""

import logging
import re

import pytest

from client.fake_cluster import HANG_UP, FakeCluster
from kohort.client.backoff import Backoff
from kohort.client.cluster.cluster import Cluster
from kohort.client.consumer import Consumer
from kohort.client.errors import BrokerUnreachableError, GaveUpError
from kohort.client.group.group import ConsumerGroup
from kohort.client.metrics import reason
from kohort.client.produce.producer import Producer
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition

NOT_LEADER = 6
SESSION_LOST = 71
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kohort.client.retries")


def retries(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The retries that were logged, without their pauses; all are at DEBUG."""
    told = [line for line in caplog.records if line.name == "kohort.client.retries"]
    assert {each.levelno for each in told} <= {logging.DEBUG}
    matches = [re.fullmatch(r"(.*); next attempt in \d+ ms", each.getMessage()) for each in told]
    return [match[1] for match in matches if match]


def test_the_pause_is_told(caplog: pytest.LogCaptureFixture) -> None:
    backoff = Backoff(100, 1_000, lambda _least, _most: 1.0)
    error = KafkaError(ErrorCode.not_coordinator)
    assert [backoff.after(error, "committing") for _ in range(2)] == [0.1, 0.2]
    assert caplog.messages == [
        "committing: attempt 1 failed: NOT_COORDINATOR; next attempt in 100 ms",
        "committing: attempt 2 failed: NOT_COORDINATOR; next attempt in 200 ms",
    ]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KafkaError(ErrorCode.not_coordinator, "group g"), "NOT_COORDINATOR"),
        (BrokerUnreachableError("127.0.0.1:1: Connection refused"), "BrokerUnreachableError"),
        (GaveUpError("all", KafkaError(ErrorCode.not_controller)), "NOT_CONTROLLER"),
        (GaveUpError("all", None), "GaveUpError"),
    ],
)
def test_reasons_are_few(error: KohortError, kind: str) -> None:
    assert reason(error) == kind


async def test_connections_and_metadata(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as fake, Cluster(fake.config(default_api_timeout_ms=20)) as cluster:
        broker = fake.brokers[0]
        await broker.stop()
        with pytest.raises(GaveUpError):
            await cluster.metadata()
    told = retries(caplog)
    refused = f"{broker.address}: Connection refused"
    assert told[0] == f"connecting to {broker.address}: attempt 1 failed: {refused}"
    assert (
        f"metadata from {broker.address}: attempt 1 failed: no broker could be reached" in told[1]
    )
    assert told[2].startswith(f"connecting to {broker.address}: attempt 2")


async def test_each_retried_fetch_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeCluster(topics={"orders": 1}) as fake, Cluster(fake.config()) as cluster:
        errors = [(SESSION_LOST, 0), (0, NOT_LEADER), (0, 29)]

        def fetch(_: object) -> object:
            whole, of_partition = errors.pop(0)
            told = {"partition_index": 0, "error_code": of_partition, "high_watermark": 0}
            topic = {"topic_id": fake.topics["orders"].id, "topic": "orders", "partitions": [told]}
            return {"error_code": whole, "responses": [] if whole else [topic]}

        fake.on("fetch", fetch)
        async with Consumer(cluster) as consumer:
            await consumer.assign({ORDERS: 0})
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                await anext(consumer)
    assert retries(caplog) == [
        "the fetch session: attempt 1 failed: INVALID_FETCH_SESSION_EPOCH: fetching from broker 0",
        "reading orders-0: attempt 1 failed: "
        "NOT_LEADER_OR_FOLLOWER: fetching orders-0 at offset 0",
    ]  # fmt: skip


async def test_each_retried_produce_request_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeCluster(topics={"orders": 1}) as fake:
        told = {
            "responses": [
                {"name": "orders", "partition_responses": [{"index": 0, "base_offset": 0}]}
            ]
        }
        answers = [HANG_UP, told]
        fake.on("produce", lambda _: answers.pop(0))
        fake.on("init_producer_id", {"producer_id": 1, "producer_epoch": 0})
        async with Producer(fake.config()) as producer:
            await producer.send_and_wait("orders", b"value")
        (line,) = retries(caplog)
        closed = (
            f"produce to {fake.brokers[0].address}: {fake.brokers[0].address} closed the connection"
        )
    assert line == f"producing to orders-0: attempt 1 failed: {closed}"


async def test_requests_to_coordinators(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(topics={"orders": 1}) as fake:
        codes = [14, 0]  # COORDINATOR_LOAD_IN_PROGRESS

        def commit(_: object) -> dict[str, object]:
            partitions = [{"partition_index": 0, "error_code": codes.pop(0)}]
            name = {"name": "orders", "topic_id": fake.topics["orders"].id}
            return {"topics": [{**name, "partitions": partitions}]}

        fake.on("offset_commit", commit)
        async with Consumer(fake.config(), group_id="billing") as consumer:
            await consumer.commit({ORDERS: 1})
    (line,) = retries(caplog)
    assert line.startswith("a request to the coordinator of billing: attempt 1 failed: COORD")


async def test_joins_are_events(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(topics={"orders": 1}) as fake:
        codes = [15, 15, 30]  # COORDINATOR_NOT_AVAILABLE, GROUP_AUTHORIZATION_FAILED
        fake.on("join_group", lambda _: {"error_code": codes.pop(0), "members": []})
        options = {"bootstrap": fake.config().bootstrap, "join_group_backoff_ms": 10}
        async with ConsumerGroup("g", topics=["orders"], **options) as group:
            with pytest.raises(KohortError, match="GROUP_AUTHORIZATION_FAILED"):
                await group.next()
    told = [line.getMessage() for line in caplog.records if ": retry: " in line.getMessage()]
    failed = "g: retry: JoinGroup failed with COORDINATOR_NOT_AVAILABLE"
    assert [each.partition(", next attempt in")[0] for each in told] == [
        f"{failed}; attempt 1 failed", f"{failed}; attempt 2 failed",
    ]  # fmt: skip
