"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources."""

from __future__ import annotations

from typing import Any

from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.administration import node_of
from kohort_conformance.stage import Client, Stage

TOPIC = 2
BROKER = 4
LOGGER = 8
METRICS = 16
GROUP = 32
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
async def every_config(stage: Stage) -> None:
    """All configs of a topic, with their types, sources and synonyms."""
    name = await stage.create_topic()
    a = await stage.client()
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
    told = await a.quiet("DescribeConfigs", 4, resources=[resource], include_synonyms=True)
    for one in sorted(told["results"][0]["configs"], key=lambda config: str(config["name"])):
        stage.note(one["name"], {key: value for key, value in one.items() if key != "name"})


@scenario
async def limits_of_newer_configs(stage: Stage) -> None:
    """The bounds of topic configs that are new in Kafka 4.4."""
    name = await stage.create_topic()
    a = await stage.client()
    for key, values in (
        ("max.decompressed.message.bytes", ("1", "0", "2147483639", "2147483640")),
        ("remote.copy.lag.ms", ("-1", "-2", "0", "86400000")),
        ("remote.copy.lag.bytes", ("-1", "-2", "0", "1000")),
        ("errors.deadletterqueue.group.enable", ("true", "false", "yes")),
    ):
        for value in values:
            await alter(a, name, (key, SET, value), validate_only=True)


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


async def ask_about(
    client: Client, kind: int, name: str, keys: list[str] | None, version: int = 4
) -> None:
    """DescribeConfigs of one resource, recorded in the order of names."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    response = await client.quiet(
        "DescribeConfigs", version, resources=[resource], include_synonyms=True
    )
    for result in response["results"]:
        result["configs"].sort(key=lambda one: one["name"])
        if kind in (BROKER, LOGGER):
            result["resource_name"] = result["resource_name"] and "<node>"
    client.stage.note(f"{client.client_id}: DescribeConfigs v{version}", response)


async def change(
    client: Client,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    **values: Any,
) -> None:
    """IncrementalAlterConfigs of one resource, recorded."""
    listed = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": listed}
    response = await client.quiet(
        "IncrementalAlterConfigs", version, resources=[resource], **values
    )
    record(client, f"IncrementalAlterConfigs v{version}", kind, response)


async def replace(
    client: Client,
    kind: int,
    name: str,
    *configs: tuple[str, str | None],
    version: int = 2,
    **values: Any,
) -> None:
    """AlterConfigs of one resource, recorded."""
    listed = [{"name": key, "value": value} for key, value in configs]
    resource = {"resource_type": kind, "resource_name": name, "configs": listed}
    response = await client.quiet("AlterConfigs", version, resources=[resource], **values)
    record(client, f"AlterConfigs v{version}", kind, response)


def record(client: Client, label: str, kind: int, response: dict[str, Any]) -> None:
    """Record the response without the id of the node."""
    for one in response["responses"]:
        if kind in (BROKER, LOGGER):
            one["resource_name"] = one["resource_name"] and "<node>"
    client.stage.note(f"{client.client_id}: {label}", response)


async def until_set(client: Client, kind: int, name: str, key: str, value: str | None) -> None:
    """Wait until a config of any resource is described with this value; None: not at all."""

    async def is_so() -> bool:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
        told = await client.quiet("DescribeConfigs", 4, resources=[resource])
        configs = told["results"][0]["configs"]
        return [one["value"] for one in configs] == ([] if value is None else [value])

    await client.stage.until(f"{key} is {value}", is_so)


@scenario
async def replaced(stage: Stage) -> None:
    """AlterConfigs deletes what it does not name."""
    name = await stage.create_topic(max_message_bytes="5000")
    a = await stage.client()
    for version in (0, 1, 2):
        await replace(a, TOPIC, name, ("retention.ms", f"{version + 7}000"), version=version)
        await until_value(a, name, "retention.ms", f"{version + 7}000")
        await describe(a, name)
    await replace(a, TOPIC, name, ("retention.ms", "1"), validate_only=True)
    await replace(a, TOPIC, name)
    await until_value(a, name, "retention.ms", "604800000")
    await describe(a, name)


@scenario
async def refused_replacements(stage: Stage) -> None:
    """Names, values and resources that AlterConfigs refuses; nothing changes."""
    name = await stage.create_topic()
    a = await stage.client()
    await replace(a, TOPIC, name, ("retention.ms", "soon"))
    await replace(a, TOPIC, name, ("no.such.config", "1"))
    await replace(a, TOPIC, name, ("retention.ms", None))
    await replace(a, TOPIC, name, ("retention.ms", "1"), ("retention.ms", "2"))
    await replace(a, TOPIC, stage.topic_named("none"), ("retention.ms", "1"))
    await replace(a, TOPIC, "", ("retention.ms", "1"))
    await replace(a, TOPIC, "a b", ("retention.ms", "1"))
    await replace(a, LOGGER, str(await node_of(a)), ("root", "INFO"))
    await replace(a, 77, "x", ("retention.ms", "1"))
    await replace(a, 0, "x")
    await describe(a, name)


@scenario
async def broker_configs(stage: Stage) -> None:
    """Set on one broker and on all, described with what they hide, and deleted."""
    a = await stage.client()
    node, key = str(await node_of(a)), "log.cleaner.backoff.ms"
    await ask_about(a, BROKER, node, [key])
    await change(a, BROKER, "", (key, SET, "14000"))
    await until_set(a, BROKER, node, key, "14000")
    await ask_about(a, BROKER, node, [key])
    await ask_about(a, BROKER, "", [key])
    await change(a, BROKER, node, (key, SET, "13000"), version=0)
    await until_set(a, BROKER, node, key, "13000")
    await ask_about(a, BROKER, node, [key])
    await ask_about(a, BROKER, "", [key])
    await change(a, BROKER, "", (key, DELETE, None))
    await until_set(a, BROKER, "", key, None)
    await ask_about(a, BROKER, node, [key])
    await change(a, BROKER, node, (key, DELETE, None))
    await until_set(a, BROKER, node, key, "15000")
    await ask_about(a, BROKER, node, [key])


@scenario
async def broker_configs_of_units(stage: Stage) -> None:
    """A config that is not set itself has no value, whatever stands in for it."""
    a = await stage.client()
    node = str(await node_of(a))
    await ask_about(a, BROKER, node, ["log.roll.ms", "log.roll.hours"])


@scenario
async def refused_broker_configs(stage: Stage) -> None:
    """Configs that are set at the start, values out of range, other brokers; nothing changes."""
    a = await stage.client()
    node, key = str(await node_of(a)), "max.connections"
    await change(a, BROKER, node, ("num.partitions", SET, "5"))
    await change(a, BROKER, "", ("num.partitions", SET, "5"), (key, SET, "5000"))
    await change(a, BROKER, node, ("log.retention.hours", SET, "5"))
    await change(a, BROKER, node, (key, SET, "many"))
    await change(a, BROKER, node, (key, SET, "-1"))
    await change(a, BROKER, node, (key, SET, None))
    await change(a, BROKER, node, (key, SET, "1000"), (key, SET, "2000"))
    await change(a, BROKER, node, (key, APPEND, "1000"))
    await change(a, BROKER, node, ("log.retention.ms", SET, "0"))
    await change(a, BROKER, node, ("log.cleanup.policy", APPEND, "shrink"))
    await change(a, BROKER, node, ("no.such.config", DELETE, None), ("node.id", DELETE, None))
    await change(a, BROKER, node, (key, SET, "5000"), validate_only=True)
    await change(a, BROKER, "77", (key, SET, "5000"))
    await change(a, BROKER, "x", (key, SET, "5000"))
    await replace(a, BROKER, node, ("num.partitions", "5"))
    await replace(a, BROKER, node, (key, "many"))
    await replace(a, BROKER, node, (key, None))
    await replace(a, BROKER, node, (key, "1000"), (key, "2000"))
    await replace(a, BROKER, "77", (key, "5000"))
    await ask_about(a, BROKER, node, [key])


@scenario
async def group_configs(stage: Stage) -> None:
    """Set, described with the default behind it, and deleted."""
    a = await stage.client()
    group, key = stage.group, "consumer.session.timeout.ms"
    await ask_about(a, GROUP, group, None)
    await change(
        a, GROUP, group, (key, SET, "46000"), ("share.isolation.level", SET, "read_committed")
    )
    await until_set(a, GROUP, group, key, "46000")
    await ask_about(a, GROUP, group, [key, "share.isolation.level"])
    await replace(a, GROUP, group, (key, "47000"))
    await until_set(a, GROUP, group, key, "47000")
    await ask_about(a, GROUP, group, [key, "share.isolation.level"])
    await change(a, GROUP, group, (key, DELETE, None))
    await until_set(a, GROUP, group, key, "45000")
    await ask_about(a, GROUP, group, [key])


@scenario
async def newer_group_configs(stage: Stage) -> None:
    """Values of group configs that are new in Kafka 4.4."""
    a = await stage.client()
    for key, values in (
        ("errors.deadletterqueue.copy.record.enable", ("true", "yes")),
        ("errors.deadletterqueue.topic.name", ("", "t", "dlq.t", "a b", "__consumer_offsets")),
        ("streams.assignor.name", ("sticky", "highly_available", "odd", "")),
        ("streams.rack.aware.assignment.tags", ("", "zone", "zone,rack", "zone,zone", "a b")),
        ("streams.task.offset.interval.ms", ("60000", "1")),
        ("streams.num.warmup.replicas", ("2",)),
        ("streams.acceptable.recovery.lag", ("10000",)),
        ("consumer.assignor.offload.enable", ("true",)),
        ("share.assignor.offload.enable", ("true",)),
    ):
        for value in values:
            await change(a, GROUP, stage.group, (key, SET, value), validate_only=True)


@scenario
async def refused_group_configs(stage: Stage) -> None:
    """Names and values that groups cannot have."""
    a = await stage.client()
    group, key = stage.group, "consumer.session.timeout.ms"
    await change(a, GROUP, group, (key, SET, "46000"), ("no.such.config", SET, "1"))
    for value in ("1", "90000", "soon", None):
        await change(a, GROUP, group, (key, SET, value))
    await change(a, GROUP, group, (key, APPEND, "46000"))
    await change(a, GROUP, group, ("consumer.heartbeat.interval.ms", SET, "46000"))
    await change(a, GROUP, group, ("streams.num.standby.replicas", SET, "9"))
    await change(a, GROUP, group, ("share.isolation.level", SET, "odd"))
    await change(a, GROUP, group, ("share.auto.offset.reset", SET, "odd"))
    await change(
        a, GROUP, group, ("share.auto.offset.reset", SET, "by_duration:PT1H"), validate_only=True
    )
    await change(a, GROUP, group, ("no.such.config", DELETE, None))
    await change(a, GROUP, "", (key, SET, "46000"))
    await replace(a, GROUP, "", (key, "46000"))
    await ask_about(a, GROUP, "", [key])
    await ask_about(a, GROUP, group, [key])


@scenario
async def client_metrics(stage: Stage) -> None:
    """Subscriptions are set, described, listed and deleted."""
    a = await stage.client()
    name = stage.group_named("metrics")
    await ask_about(a, METRICS, name, None)
    await change(a, METRICS, name, ("interval.ms", SET, "1000"), ("metrics", SET, "a.b,c"))
    await until_set(a, METRICS, name, "interval.ms", "1000")
    await ask_about(a, METRICS, name, None)
    await change(a, METRICS, name, ("match", SET, "client_id=.*,client_source_port=9"))
    await until_set(a, METRICS, name, "match", "client_id=.*,client_source_port=9")
    await listed(a, name, 0)
    await listed(a, name, 1, METRICS)
    await replace(a, METRICS, name)
    await until_set(a, METRICS, name, "interval.ms", "300000")
    await ask_about(a, METRICS, name, None)
    await listed(a, name, 0)


@scenario
async def refused_client_metrics(stage: Stage) -> None:
    """Names, intervals and patterns that subscriptions cannot have."""
    a = await stage.client()
    name = stage.group_named("metrics")
    for value in ("5", "3600001", "soon", None):
        await change(a, METRICS, name, ("interval.ms", SET, value))
    for value in ("odd=.*", "client_id=(", "client_id"):
        await change(a, METRICS, name, ("match", SET, value))
    await change(a, METRICS, name, ("metrics", APPEND, "a"))
    await change(a, METRICS, "", ("metrics", SET, "a"))
    await ask_about(a, METRICS, "", None)
    await ask_about(a, METRICS, name, None)


async def listed(client: Client, name: str, version: int, *kinds: int) -> None:
    """Whether ListConfigResources has a resource, recorded."""
    response = await client.quiet("ListConfigResources", version, resource_types=kinds)
    found = [one for one in response["config_resources"] if one["resource_name"] == name]
    client.stage.note(
        f"{client.client_id}: ListConfigResources v{version}", [response["error_code"], found]
    )


@scenario
async def config_resources(stage: Stage) -> None:
    """Topics, groups with configs and brokers are listed, by type or all together."""
    topic = await stage.create_topic()
    a = await stage.client()
    node = str(await node_of(a))
    await change(a, GROUP, stage.group, ("consumer.session.timeout.ms", SET, "46000"))
    await until_set(a, GROUP, stage.group, "consumer.session.timeout.ms", "46000")
    for name, kinds in ((topic, (TOPIC,)), (topic, ()), (topic, (GROUP,)), (stage.group, (GROUP,))):
        await listed(a, name, 1, *kinds)
    for kinds in ((BROKER,), (LOGGER,), ()):
        response = await a.quiet("ListConfigResources", 1, resource_types=kinds)
        found = [
            one["resource_type"]
            for one in response["config_resources"]
            if one["resource_name"] == node
        ]
        stage.note("brokers and loggers", sorted(found))
    for kind in (0, 77):
        await a.ask("ListConfigResources", 1, resource_types=[kind])
    await change(a, GROUP, stage.group, ("consumer.session.timeout.ms", DELETE, None))
    await until_set(a, GROUP, stage.group, "consumer.session.timeout.ms", "45000")
    await listed(a, stage.group, 1, GROUP)


@scenario
async def refused_loggers(stage: Stage) -> None:
    """Loggers and levels that do not exist, and what cannot be done to the root."""
    a = await stage.client()
    node = str(await node_of(a))
    await change(a, LOGGER, node, ("root", SET, "LOUD"))
    await change(a, LOGGER, node, ("root", SET, "info"))
    await change(a, LOGGER, node, ("root", SET, None))
    await change(a, LOGGER, node, ("root", DELETE, None))
    await change(a, LOGGER, node, ("root", APPEND, "INFO"))
    await change(a, LOGGER, node, ("root", SET, "INFO"), ("root", SET, "WARN"))
    await change(a, LOGGER, node, ("no.such.logger", SET, "INFO"))
    await change(a, LOGGER, node, ("no.such.logger", DELETE, None))
    await change(a, LOGGER, node, ("root", SET, "FATAL"), validate_only=True)
    for name in ("77", "", "x"):
        await change(a, LOGGER, name, ("root", SET, "INFO"))
        await ask_about(a, LOGGER, name, ["root"])
    await ask_about(a, LOGGER, node, ["no.such.logger"])
