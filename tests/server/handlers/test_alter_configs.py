"""AlterConfigs v0-2 and ListConfigResources v0-1."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.server.config.resources import ResourceType
from server.handlers.bench import HandlerBench

TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP


async def replace(
    bench: HandlerBench, kind: int, name: str, version: int = 2, only: bool = False, **configs: Any
) -> ErrorCode:
    listed = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": listed}
    response = await bench.ask("alter_configs", version, resources=[resource], validate_only=only)
    code: ErrorCode = response.responses[0].error_code
    return code


@pytest.mark.parametrize("version", range(3))
async def test_configs_left_out_are_deleted(bench: HandlerBench, topic: str, version: int) -> None:
    for configs in ({"retention_ms": "5", "segment_ms": "6"}, {"segment_ms": "7"}, {}):
        assert await replace(bench, TOPIC, topic, version, **configs) is ErrorCode.none
        assert bench.topics.get(topic).configs == {  # type: ignore[union-attr]
            key.replace("_", "."): value for key, value in configs.items()
        }


async def test_a_validated_change_of_configs_is_not_set(bench: HandlerBench, topic: str) -> None:
    assert await replace(bench, TOPIC, topic, only=True, retention_ms="5") is ErrorCode.none
    assert bench.topics.get(topic).configs == {}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code"),
    [
        (TOPIC, "orders", "retention.ms", "soon", ErrorCode.invalid_config),
        (TOPIC, "orders", "nope", "1", ErrorCode.invalid_config),
        (TOPIC, "orders", "retention.ms", None, ErrorCode.invalid_request),
        (TOPIC, "nope", "retention.ms", "1", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "", "retention.ms", "1", ErrorCode.invalid_request),
        (BROKER, "0", "num.partitions", "5", ErrorCode.invalid_request),
        (BROKER, "2", "max.connections", "5", ErrorCode.invalid_request),
        (ResourceType.BROKER_LOGGER, "0", "root", "INFO", ErrorCode.invalid_request),
        (GROUP, "g", "nope", "1", ErrorCode.invalid_config),
        (77, "x", "a", "b", ErrorCode.invalid_request),
    ],
)
async def test_invalid_changes_of_configs_are_refused(
    bench: HandlerBench,
    topic: str,
    kind: int,
    name: str,
    key: str,
    value: str | None,
    code: ErrorCode,
) -> None:
    before = bench.controller.writer.last_change
    assert await replace(bench, kind, name, **{key: value}) is code
    assert bench.controller.writer.last_change == before


async def test_brokers_and_groups(bench: HandlerBench) -> None:
    assert await replace(bench, BROKER, "0", max_connections="5") is ErrorCode.none
    assert bench.config["max.connections"] == 5
    assert await replace(bench, BROKER, "0") is ErrorCode.none
    assert bench.config["max.connections"] == 2**31 - 1
    assert await replace(bench, GROUP, "g", share_delivery_count_limit="7") is ErrorCode.none
    assert bench.controller.configuration.configs_of(GROUP, "g") == {
        "share.delivery.count.limit": "7"
    }


class TestListConfigResources:
    async def names(self, bench: HandlerBench, version: int, *kinds: int) -> list[tuple[str, int]]:
        response = await bench.ask("list_config_resources", version, resource_types=kinds)
        assert response.error_code is ErrorCode.none
        return [
            (
                resource.resource_name,
                getattr(resource, "resource_type", ResourceType.CLIENT_METRICS),
            )
            for resource in response.config_resources
        ]

    async def test_config_resources_are_listed_by_type(
        self, bench: HandlerBench, topic: str
    ) -> None:
        metrics = ResourceType.CLIENT_METRICS
        await replace(bench, GROUP, "g", share_delivery_count_limit="7")
        await replace(bench, metrics, "m", metrics="a")
        assert await self.names(bench, 0) == [("m", metrics)]
        assert await self.names(bench, 1, TOPIC, GROUP) == [("g", GROUP), (topic, TOPIC)]
        assert await self.names(bench, 1) == [
            ("g", GROUP),
            ("m", metrics),
            ("0", ResourceType.BROKER_LOGGER),
            ("0", BROKER),
            (topic, TOPIC),
        ]
        await replace(bench, metrics, "m")
        assert await self.names(bench, 0) == []

    async def test_listing_an_unknown_type_is_an_unsupported_version(
        self, bench: HandlerBench
    ) -> None:
        response = await bench.ask("list_config_resources", 1, resource_types=[2, 77])
        assert response.error_code is ErrorCode.unsupported_version
