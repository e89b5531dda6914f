"""What brokers tell of topics that they do not show: an error is not a deletion. No Spark."""

import asyncio
import threading
from contextlib import contextmanager

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from client.fake_cluster import FakeCluster
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.spark.offset_queries import OffsetQueries
from kohort.spark.options import parse_read
from kohort.spark.stream import StreamReader
from kohort.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
SUBSCRIPTIONS = {
    "subscribe": "orders",
    "subscribePattern": "ord.*",
    "assign": '{"orders": [0]}',
}


@contextmanager
def running(cluster):
    """The cluster on a loop of its own thread: sources ask from a plain function."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(cluster.__aenter__(), loop).result(10)
        yield cluster
    finally:
        asyncio.run_coroutine_threadsafe(cluster.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def cluster():
    with running(FakeCluster(topics={"orders": 1})) as found:
        yield found


@pytest.fixture(params=SUBSCRIPTIONS)
def queries(cluster, request):
    options = {
        "kafka.bootstrap.servers": cluster.config().servers[0][0]
        + f":{cluster.config().servers[0][1]}",
        "kafka.default.api.timeout.ms": "500",
        "kafka.retry.backoff.ms": "5",
        "kafka.retry.backoff.max.ms": "20",
        request.param: SUBSCRIPTIONS[request.param],
    }
    return OffsetQueries(parse_read(options, streaming=True))


def tell(cluster, error, times):
    """Have the topic told of with an error, that often."""
    right = cluster.metadata
    left = [times]

    def answer(request):
        told = right(request.body)
        left[0] -= 1
        if left[0] >= 0:
            told["topics"] = [{"name": "orders", "error_code": error.value, "partitions": []}]
        return told

    cluster.on("metadata", answer)


def test_a_topic_that_may_not_be_read_is_told(cluster, queries):
    tell(cluster, ErrorCode.topic_authorization_failed, 100)
    with pytest.raises(KafkaError, match=r"TOPIC_AUTHORIZATION_FAILED: topic orders; .*Describe"):
        queries.partitions()


def test_a_topic_without_a_leader_is_asked_again(cluster, queries):
    tell(cluster, ErrorCode.leader_not_available, 3)
    assert list(queries.partitions()) == [ORDERS]


def test_queries_are_retried_until_the_time_limit(cluster, queries):
    tell(cluster, ErrorCode.leader_not_available, 10_000)
    with pytest.raises(KohortError, match=r"gave up .*LEADER_NOT_AVAILABLE: topic orders"):
        queries.partitions()


def test_a_topic_that_is_not_there_has_no_partitions(cluster, queries):
    tell(cluster, ErrorCode.unknown_topic_or_partition, 100)
    assert not queries.partitions()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_a_pattern_may_not_see_any_more_is_not_gone(cluster, fail):
    """Brokers leave it out of a list, and tell why when it is asked for by its name."""
    options = {
        "kafka.bootstrap.servers": cluster.brokers[0].address,
        "subscribePattern": "ord.*",
        "failOnDataLoss": fail,
    }
    reader = StreamReader(parse_read(options, streaming=True))
    right = cluster.metadata

    def denied(request):
        told, error = right(request.body), ErrorCode.topic_authorization_failed
        hidden = {"name": "orders", "error_code": error.value, "partitions": []}
        told["topics"] = [] if request.body.topics is None else [hidden]
        return told

    cluster.on("metadata", denied)
    for ask in (
        lambda: reader.latestOffset({"orders": {"0": 2}}, ReadAllAvailable()),
        lambda: reader.partitions({"orders": {"0": 2}}, {"orders": {"0": 5}}),
    ):
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: topic orders"):
            ask()
