"""DescribeConfigs and IncrementalAlterConfigs of topics."""

from __future__ import annotations

from typing import Any

from kohort.conformance.scenario import scenario
from kohort.conformance.stage import Client, Stage

TOPIC = 2
BROKER = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
KEYS = [
    "cleanup.policy",
    "retention.ms",
    "max.message.bytes",
    "segment.bytes",
    "message.timestamp.type",
]


async def describe(client: Client, name: str, version: int = 4, **values: Any) -> None:
    """DescribeConfigs of some configs of one topic, recorded in the order of names."""
    resource = {
        "resource_type": TOPIC,
        "resource_name": name,
        "configuration_keys": KEYS,
        **values.pop("resource", {}),
    }
    response = await client.quiet("DescribeConfigs", version, resources=[resource], **values)
    for result in response["results"]:
        result["configs"].sort(key=lambda one: one["name"])
    client.stage.note(f"{client.client_id}: DescribeConfigs v{version}", response)


async def alter(
    client: Client,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    **values: Any,
) -> None:
    """IncrementalAlterConfigs of one topic, recorded."""
    listed = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": listed}
    await client.ask("IncrementalAlterConfigs", version, resources=[resource], **values)


async def until_value(client: Client, name: str, key: str, value: str) -> None:
    """Wait until a config of a topic is described with this value."""

    async def is_so() -> bool:
        resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": [key]}
        told = await client.quiet("DescribeConfigs", 4, resources=[resource])
        return any(one["value"] == value for one in told["results"][0]["configs"])

    await client.stage.until(f"{key} is {value}", is_so)


@scenario
async def defaults(stage: Stage) -> None:
    """The configs of a topic that sets only its retention, in every version."""
    name = await stage.create_topic()
    a = await stage.client()
    for version in range(1, 5):
        await describe(a, name, version)


@scenario
async def synonyms(stage: Stage) -> None:
    """Where each value comes from, and what it would be otherwise."""
    name = await stage.create_topic(max_message_bytes="2000")
    a = await stage.client()
    await describe(
        a,
        name,
        include_synonyms=True,
        resource={"configuration_keys": ["max.message.bytes", "retention.ms"]},
    )


@scenario
async def unknown_topic(stage: Stage) -> None:
    """A topic that does not exist, and a name that none can have."""
    a = await stage.client()
    for version in (1, 4):
        await describe(a, stage.topic_named("none"), version)
    await describe(a, "a b")
    await describe(a, "")


@scenario
async def unknown_keys(stage: Stage) -> None:
    """Configs that do not exist are left out; an empty list of keys gives none or all."""
    name = await stage.create_topic()
    a = await stage.client()
    await describe(a, name, resource={"configuration_keys": ["no.such.config", "retention.ms"]})
    response = await a.quiet(
        "DescribeConfigs",
        4,
        resources=[{"resource_type": TOPIC, "resource_name": name, "configuration_keys": []}],
    )
    stage.note("an empty list gives all", len(response["results"][0]["configs"]) > 5)
    response = await a.quiet(
        "DescribeConfigs",
        4,
        resources=[{"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}],
    )
    stage.note("null gives all", len(response["results"][0]["configs"]) > 5)


@scenario
async def unknown_resource_type(stage: Stage) -> None:
    """Resource types that have no configs."""
    a = await stage.client()
    for kind in (0, 1, 77):
        resource = {"resource_type": kind, "resource_name": "x", "configuration_keys": None}
        b = await stage.client(f"type {kind}")
        await b.ask("DescribeConfigs", 4, resources=[resource])
    await a.ask("DescribeConfigs", 4, resources=[])


@scenario
async def set_and_delete(stage: Stage) -> None:
    """A value that is set is described; deleted, the default is back."""
    name = await stage.create_topic()
    a = await stage.client()
    await alter(a, name, ("max.message.bytes", SET, "5000"))
    await until_value(a, name, "max.message.bytes", "5000")
    await describe(a, name)
    await alter(a, name, ("max.message.bytes", DELETE, None), version=0)
    await until_value(a, name, "max.message.bytes", "1048588")
    await describe(a, name)


@scenario
async def append_and_subtract(stage: Stage) -> None:
    """Lists can be extended and reduced; other types cannot."""
    name = await stage.create_topic()
    a = await stage.client()
    await alter(a, name, ("cleanup.policy", APPEND, "compact"))
    await until_value(a, name, "cleanup.policy", "delete,compact")
    await describe(a, name, resource={"configuration_keys": ["cleanup.policy"]})
    await alter(a, name, ("cleanup.policy", SUBTRACT, "delete"))
    await until_value(a, name, "cleanup.policy", "compact")
    await describe(a, name, resource={"configuration_keys": ["cleanup.policy"]})
    await alter(a, name, ("retention.ms", APPEND, "5"))
    await alter(a, name, ("retention.ms", SUBTRACT, "5"))


@scenario
async def refused_changes(stage: Stage) -> None:
    """Unknown names, bad values, null values, the same name twice; nothing changes."""
    name = await stage.create_topic()
    a = await stage.client()
    await alter(a, name, ("no.such.config", SET, "1"))
    await alter(a, name, ("retention.ms", SET, "soon"))
    await alter(a, name, ("max.message.bytes", SET, "-1"))
    await alter(a, name, ("retention.ms", SET, None))
    await alter(a, name, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    await alter(a, name, ("max.message.bytes", SET, "6000"), ("retention.ms", SET, "soon"))
    await alter(a, name)
    await describe(a, name)


@scenario
async def alter_unknown_topic(stage: Stage) -> None:
    """A topic that does not exist."""
    a = await stage.client()
    await alter(a, stage.topic_named("none"), ("retention.ms", SET, "1"))
    await alter(a, "", ("retention.ms", SET, "1"))


@scenario
async def dry_run(stage: Stage) -> None:
    """A change that is only validated changes nothing."""
    name = await stage.create_topic()
    a = await stage.client()
    await alter(a, name, ("max.message.bytes", SET, "5000"), validate_only=True)
    await alter(a, name, ("max.message.bytes", SET, "much"), validate_only=True)
    await stage.settle()
    await describe(a, name)


@scenario
async def same_topic_twice(stage: Stage) -> None:
    """A resource twice in one request."""
    name = await stage.create_topic()
    a = await stage.client()
    change = {"name": "max.message.bytes", "config_operation": SET, "value": "5000"}
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": [change]}
    await a.ask("IncrementalAlterConfigs", 1, resources=[resource, resource])
