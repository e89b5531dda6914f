"""DescribeConfigs v1-4."""

import logging
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.building import request
from kohort.protocol.messages import decode_request, encode
from kohort.server.config.resources import ResourceType
from kohort.server.config.table import DYNAMIC, TABLE
from kohort.server.config.topic_table import TOPIC_CONFIGS
from kohort.server.handlers import describe_configs
from server.handlers.bench import HandlerBench, Unread
from turns import BOUND_MS, longest_turn_ms

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


async def describe(
    bench: HandlerBench,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    **fields: Any,
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (result,) = (
        await bench.ask("describe_configs", version, resources=[resource], **fields)
    ).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def refused(bench: HandlerBench, kind: int, name: str) -> tuple[ErrorCode, str]:
    result = await describe(bench, kind, name)
    assert result.configs == ()
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", range(1, 5))
async def test_configs_of_a_topic_have_source_synonyms_and_type(
    bench: HandlerBench, version: int
) -> None:
    bench.controller.topics.create("orders", 1, {"cleanup.policy": "compact, delete"})
    result = await describe(bench, TOPIC, "orders", version=version, include_synonyms=True)
    assert (result.error_code, result.error_message) == (ErrorCode.none, "")
    configs = {config.name: config for config in result.configs}
    assert configs.keys() == TOPIC_CONFIGS.keys()
    policy = configs["cleanup.policy"]
    assert (policy.value, policy.config_source, policy.read_only, policy.is_sensitive) == (
        "compact,delete",
        1,
        False,
        False,
    )
    assert [(synonym.name, synonym.value, synonym.source) for synonym in policy.synonyms] == [
        ("cleanup.policy", "compact,delete", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    if version >= 3:
        kinds = {name: configs[name].config_type for name in configs}
        assert kinds["cleanup.policy"] == 7
        assert kinds["retention.ms"] == 5
        assert kinds["segment.bytes"] == 3
        assert kinds["preallocate"] == 1
        assert kinds["compression.type"] == 2
        assert kinds["min.cleanable.dirty.ratio"] == 6
        assert policy.documentation is None


async def test_doubles_are_written_as_java_does(bench: HandlerBench) -> None:
    bench.controller.topics.create("orders", 1, {"min.cleanable.dirty.ratio": "0.0001"})
    key = ["min.cleanable.dirty.ratio"]
    result = await describe(bench, TOPIC, "orders", key, include_synonyms=True)
    (ratio,) = result.configs
    assert ratio.value == "1.0E-4"
    assert [synonym.value for synonym in ratio.synonyms] == ["1.0E-4", "0.5"]


async def test_documentation_and_synonyms_are_only_given_if_asked_for(
    bench: HandlerBench, topic: str
) -> None:
    plain = await describe(bench, TOPIC, topic)
    assert all(config.documentation is None and config.synonyms == () for config in plain.configs)
    full = await describe(bench, TOPIC, topic, include_documentation=True)
    assert all(config.documentation for config in full.configs)


async def test_only_the_named_configs_are_described(bench: HandlerBench, topic: str) -> None:
    for keys, names in (
        (["retention.ms"], ["retention.ms"]),
        (["nope"], []),
        ([], list(TOPIC_CONFIGS)),
        (None, list(TOPIC_CONFIGS)),
    ):
        result = await describe(bench, TOPIC, topic, keys)
        assert [config.name for config in result.configs] == names


async def test_topics_that_there_are_not(bench: HandlerBench) -> None:
    assert await refused(bench, TOPIC, "nope") == (ErrorCode.unknown_topic_or_partition, "")
    assert await refused(bench, TOPIC, "") == (
        ErrorCode.invalid_topic_exception,
        "Topic name is invalid: the empty string is not allowed",
    )


@pytest.mark.parametrize("version", range(1, 5))
async def test_configs_of_the_broker_have_source_synonyms_and_documentation(version: int) -> None:
    bench = HandlerBench(num_partitions=4)
    result = await describe(
        bench, BROKER, "0", version=version, include_synonyms=True, include_documentation=True
    )
    configs = {config.name: config for config in result.configs}
    assert configs.keys() == TABLE.keys()
    assert {name for name, each in configs.items() if not each.read_only} == DYNAMIC
    assert all(
        config.is_sensitive is (TABLE[config.name].kind == "password") for config in result.configs
    )
    changed, default = configs["num.partitions"], configs["message.max.bytes"]
    assert (changed.value, changed.config_source) == ("4", 4)
    assert [(synonym.value, synonym.source) for synonym in changed.synonyms] == [("4", 4), ("1", 5)]
    assert (default.value, default.config_source) == ("1048588", 5)
    assert configs["auto.create.topics.enable"].value == "true"
    if version >= 3:
        assert default.documentation == TABLE["message.max.bytes"].doc


async def test_brokers_that_there_are_not(bench: HandlerBench) -> None:
    assert await refused(bench, BROKER, "2") == (
        ErrorCode.invalid_request,
        "Unexpected broker id, expected 0 or empty string, but received 2",
    )
    assert await refused(bench, BROKER, "x") == (
        ErrorCode.invalid_request,
        "Broker id must be an integer, but it is: x",
    )
    assert await refused(bench, ResourceType.BROKER_LOGGER, "2") == (
        ErrorCode.invalid_request,
        "Unexpected broker id, expected 0 but received 2",
    )
    assert await refused(bench, BROKER, "²") == (
        ErrorCode.invalid_request,
        "Broker id must be an integer, but it is: ²",
    )


async def test_a_config_of_another_unit_stands_behind_one_without_a_value() -> None:
    bench = HandlerBench(log_retention_hours=5)
    result = await describe(bench, BROKER, "0", include_synonyms=True)
    configs = {config.name: config for config in result.configs}
    given, behind = configs["log.retention.ms"], configs["log.retention.hours"]
    assert (given.value, given.config_source, given.synonyms) == (None, 5, ())
    assert (behind.value, behind.config_source) == ("5", 4)
    assert [(synonym.value, synonym.source) for synonym in behind.synonyms] == [
        ("5", 4),
        ("168", 5),
    ]


async def test_groups_subscriptions_and_all_brokers_without_configs(bench: HandlerBench) -> None:
    of_all = await describe(bench, BROKER, "")
    assert [config.name for config in of_all.configs] == ["min.insync.replicas"]
    group = await describe(bench, ResourceType.GROUP, "g", include_synonyms=True)
    timeout = {config.name: config for config in group.configs}["consumer.session.timeout.ms"]
    assert (timeout.value, timeout.config_source, timeout.read_only) == ("45000", 5, False)
    assert [synonym.name for synonym in timeout.synonyms] == ["group.consumer.session.timeout.ms"]
    metrics = await describe(bench, ResourceType.CLIENT_METRICS, "m", include_synonyms=True)
    assert [(config.name, config.value) for config in metrics.configs] == [
        ("interval.ms", "300000"),
        ("match", ""),
        ("metrics", ""),
    ]


async def test_loggers_are_described_with_their_levels(bench: HandlerBench) -> None:
    logging.getLogger("kohort.test").setLevel(logging.DEBUG)
    result = await describe(bench, ResourceType.BROKER_LOGGER, "0")
    levels = {config.name: config.value for config in result.configs}
    assert levels["root"] in ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
    assert levels["kohort.test"] == "DEBUG"
    assert {(config.config_source, config.config_type) for config in result.configs} == {(6, 0)}


async def test_resources_that_cannot_have_configs(bench: HandlerBench) -> None:
    assert (await refused(bench, ResourceType.GROUP, ""))[1] == "Group name must not be empty"
    assert (await refused(bench, ResourceType.CLIENT_METRICS, ""))[0] is ErrorCode.invalid_request
    for kind in (0, 1, 3, 5, 64, -1):
        assert (await refused(bench, kind, "x"))[0] is ErrorCode.invalid_request


async def test_each_of_several_resources_has_its_result(bench: HandlerBench, topic: str) -> None:
    resources = [{"resource_type": TOPIC, "resource_name": name} for name in (topic, "nope", topic)]
    results = (await bench.ask("describe_configs", 4, resources=resources)).results
    assert [result.error_code for result in results] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
    ]
    assert (await bench.ask("describe_configs", 4, resources=())).results == ()


@pytest.mark.parametrize("version", range(1, 5))
async def test_many_resources_are_described_as_few_are(bench: HandlerBench, version: int) -> None:
    bench.controller.topics.create("orders", 1)
    resources = [
        {"resource_type": 2, "resource_name": name, "configuration_keys": None}
        for name in ("orders", "missing", "not/valid")
    ]
    few = await bench.ask("describe_configs", version, resources=resources)
    many = await bench.ask("describe_configs", version, resources=resources * 20)
    assert many.results == few.results * 20


async def test_many_resources_give_way(bench: HandlerBench) -> None:
    bench.controller.topics.create("orders", 1)
    resource = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    decoded = decode_request(32, 4, encode(request(32, 4, resources=[resource] * 300)))
    exchange = Unread(32, 4)
    handling = describe_configs.handle(bench.services, exchange, decoded)  # type: ignore[arg-type]
    assert handling is not None
    worst, _ = await longest_turn_ms(handling)
    print(f"{worst:.0f} ms")
    assert sum(map(len, exchange.outcome)) > 300 * 1_000
    assert worst < BOUND_MS


async def test_a_resource_is_not_described_again_and_again(bench: HandlerBench) -> None:
    """A megabyte of names would become gigabytes."""
    broker = {"resource_type": BROKER, "resource_name": "0", "configuration_keys": None}
    loggers = broker | {"resource_type": ResourceType.BROKER_LOGGER}
    results = (
        await bench.ask(
            "describe_configs",
            4,
            resources=[*[broker] * 2_000, loggers],
            include_documentation=True,
        )
    ).results
    outcomes = [result.error_code for result in results]
    described = outcomes.count(ErrorCode.none)
    assert outcomes.count(ErrorCode.invalid_request) == 2_001 - described
    assert 10 < described < 400
    assert outcomes[-1] is ErrorCode.none


async def test_min_insync_replicas_is_set_on_the_cluster(bench: HandlerBench, topic: str) -> None:
    """As Apache Kafka 4.4 describes it on a new cluster, where ELR is on (KIP-966)."""
    name = "min.insync.replicas"
    for kind, resource, sources in ((TOPIC, topic, [3, 5]), (BROKER, "", [3])):
        result = await describe(bench, kind, resource, [name], include_synonyms=True)
        (found,) = result.configs
        assert (found.name, found.value, found.config_source) == (name, "1", 3)
        assert [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms] == [
            (name, "1", source) for source in sources
        ]
    bench.controller.topics.create("own", 1, {name: "2"})
    (found,) = (await describe(bench, TOPIC, "own", [name], include_synonyms=True)).configs
    assert [(synonym.value, synonym.source) for synonym in found.synonyms] == [
        ("2", 1),
        ("1", 3),
        ("1", 5),
    ]
