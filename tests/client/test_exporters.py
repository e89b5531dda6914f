"""Metrics of clients as Prometheus and OpenTelemetry get them."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kohort.client.config import ClientConfig
from kohort.client.consumer import Consumer
from kohort.client.group.group import ConsumerGroup
from kohort.client.metrics import FAMILIES, Measured, samples
from kohort.client.produce.producer import Producer
from kohort.client.prometheus import register
from kohort.errors import ConfigError, KohortError
from kohort.server.broker import Broker
from kohort.types import TopicPartition

FIRST, SECOND = (TopicPartition("orders", index) for index in range(2))

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 2)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def scraped(registry: CollectorRegistry) -> Series:
    """All series, which have to differ."""
    text = generate_latest(registry).decode()
    assert text.count("# TYPE") == len({line for line in text.splitlines() if "# TYPE" in line})
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def value(series: Series, name: str, **labels: str) -> float:
    """The value of the one series with that name that has these labels."""
    (found,) = [
        each
        for (sample, its_labels), each in series.items()
        if sample == f"kohort_client_{name}" and set(labels.items()) <= its_labels
    ]
    return found


def of_client(series: Series, client: str) -> bool:
    return any(("client", client) in labels for _, labels in series)


async def test_two_clients_in_one_process(
    config: ClientConfig, registry: CollectorRegistry
) -> None:
    async with Producer(config) as one, Producer(config) as two:
        register(one, name="one", registry=registry)
        register(two, name="two", registry=registry)
        for _ in range(3):
            await one.send_and_wait("orders", b"value", partition=0)
        found = scraped(registry)
        assert value(found, "produced_records_total", client="one", client_id="kohort") == 3
        assert value(found, "produced_records_total", client="two") == 0
        assert value(found, "produce_delivery_seconds_count", client="one", group="") == 3
        assert value(found, "request_seconds_count", client="one", api="metadata") == 1
        with pytest.raises(ConfigError, match="'one'"):
            register(two, name="one", registry=registry)
    assert scraped(registry) == {}


async def test_a_closed_client_is_removed_and_the_others_stay(
    config: ClientConfig, registry: CollectorRegistry
) -> None:
    async with Producer(config) as stays:
        register(stays, name="stays", registry=registry)
        async with Producer(config) as goes:
            register(goes, name="goes", registry=registry)
            assert of_client(scraped(registry), "goes")
        found = scraped(registry)
        assert of_client(found, "stays")
        assert not of_client(found, "goes")
        async with Producer(config) as again:
            register(again, name="goes", registry=registry)
        async with Producer(config) as again:  # also if nobody scraped in between
            register(again, name="goes", registry=registry)
            assert of_client(scraped(registry), "goes")


async def test_partitions_are_those_assigned(
    config: ClientConfig, registry: CollectorRegistry
) -> None:
    async with Producer(config, linger_ms=0) as producer:
        for _ in range(3):
            await producer.send_and_wait("orders", b"value", partition=0)
    async with Consumer(config) as consumer:
        register(consumer, registry=registry)
        await consumer.assign([FIRST, SECOND])
        await anext(consumer)
        found = scraped(registry)
        assert value(found, "lag", topic="orders", partition="0") == 2
        assert value(found, "position", topic="orders", partition="0") == 1
        assert value(found, "assigned_partitions") == 2
        await consumer.assign([SECOND])
        assert ("partition", "0") not in {
            label for _, labels in scraped(registry) for label in labels
        }


async def test_the_metrics_of_a_member_are_exported(
    config: ClientConfig, registry: CollectorRegistry
) -> None:
    group = ConsumerGroup(
        "g", topics=["orders"], bootstrap=config.bootstrap, heartbeat_interval_ms=100
    )
    with pytest.raises(KohortError, match="enter the group first"):
        register(group, registry=registry)
    async with group:
        register(group, name="member", registry=registry)
        generation = await group.next()
        async with generation:
            await generation.commit({FIRST: 0})
            await asyncio.sleep(1)
            found = scraped(registry)
            labels = {"client": "member", "group": "g"}
            assert value(found, "member_state", state="stable", **labels) == 1
            assert value(found, "rebalance_seconds_count", **labels) == 1
            assert value(found, "group_request_seconds_count", request="join", **labels) == 2
            assert value(found, "group_request_seconds_count", request="heartbeat", **labels) > 3
            assert value(found, "committed_offsets_total", **labels) == 1
            assert 0 <= value(found, "heartbeat_age_seconds", **labels) < 1
            group.stop()


async def test_every_family_has_samples_of_some_client(config: ClientConfig) -> None:
    async with (
        Producer(config) as producer,
        Consumer(config) as consumer,
        ConsumerGroup("g", topics=["orders"], bootstrap=config.bootstrap) as group,
    ):
        await producer.send_and_wait("orders", b"value", partition=0)
        await consumer.assign([FIRST])
        await anext(consumer)
        async with await group.next():
            await asyncio.sleep(5)
            clients: Iterable[Measured] = (producer, consumer, group)
            found = {each.family for client in clients for each in samples(client.metrics())}
            group.stop()
    assert set(FAMILIES) - found == {
        "requests_failed",
        "retries",
        "group_requests_failed",
        "transaction_state",  # of a producer with a transactional id
        "transaction_seconds",
    }


def observed(reader: Any) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The points of each instrument."""
    data = reader.get_metrics_data()
    return {
        metric.name: [(dict(point.attributes), point.value) for point in metric.data.data_points]
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


async def test_opentelemetry_observes_the_same(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry", reason="needs the extra otel")
    sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="needs opentelemetry-sdk")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from kohort.client import otel

    monkeypatch.setattr(otel, "FRESH_S", -1.0)
    reader = InMemoryMetricReader()
    meter = sdk.MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
    async with Producer(config) as one, Producer(config) as two:
        otel.register(one, name="one", meter=meter)
        otel.register(two, name="two", meter=meter)
        await one.send_and_wait("orders", b"value")
        found = observed(reader)
        common = {"client_id": "kohort", "group": ""}
        assert found["kohort.client.produced_records"] == [
            ({"client": "one", **common}, 1), ({"client": "two", **common}, 0),
        ]  # fmt: skip
        delivered = dict(found["kohort.client.produce_delivery_seconds.count"][0][0])
        assert delivered["client"] == "one"
        assert ("metadata", 1) in [
            (attributes["api"], count)
            for attributes, count in found["kohort.client.request_seconds.count"]
        ]
    assert observed(reader) == {}
