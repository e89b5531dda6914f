"""AlterConfigs (33) v0-2: replaces all configs of a resource; those left out are deleted.

Kafka has deprecated it for IncrementalAlterConfigs (KIP-339), but older tools send nothing else. v2
is flexible.
"""

from typing import TYPE_CHECKING

from kohort.server.config import ResourceType
from kohort.server.handlers.config_changes import (
    MAX_CONFIGS,
    alter_each,
    replace_configs,
    replace_topic_configs,
    validate_keys,
    validate_resource,
)
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import AlterConfigsAlterConfigsResource, AlterConfigsRequest


async def handle(services: Services, exchange: Exchange, request: "AlterConfigsRequest") -> None:
    await alter_each(services, exchange, request, _alter)


async def _alter(
    services: Services, resource: "AlterConfigsAlterConfigsResource", validate_only: bool
) -> None:
    kind, name = resource.resource_type, resource.resource_name
    requested = resource.configs[:MAX_CONFIGS]
    validate_keys(
        (config.name for config in requested),
        (config.name for config in requested if config.value is None),
    )
    configs = {config.name: config.value for config in requested if config.value is not None}
    if kind == ResourceType.TOPIC:
        await replace_topic_configs(services, name, lambda _: configs, validate_only)
    else:
        resource_kind = validate_resource(services, kind, name)
        named = {*configs, *services.controller.configuration.configs_of(resource_kind, name)}
        await replace_configs(services, resource_kind, name, lambda: configs, named, validate_only)
