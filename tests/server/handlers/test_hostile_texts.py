"""Texts that a client chooses are errors to that client, never an exception of a handler."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.server.config import ResourceType
from kohort.server.config.resource_table import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from kohort.server.config.resources import java_int
from kohort.server.config.table import TABLE
from kohort.server.config.topic_table import TOPIC_CONFIGS
from server.handlers.bench import HandlerBench

LONGEST = 32_767
HOSTILE = (
    "9" * 5_000,
    "-" + "9" * 5_000,
    "0" * 5_000 + "1",
    "1" * LONGEST,
    "x" * LONGEST,
    "1" * (LONGEST - 1) + "x",
    "é" * (LONGEST // 2),
    "," * LONGEST,
    "1," * 10_000,
    "1:1," * 8_000 + "1:1",
    "[" * 5_000,
    "(" * 5_000,
    "a=" + "(" * 5_000,
    "NaN",
    "nan",
    "inf",
    "Infinity",
    "-inf",
    "1e400",
    "1e-400",
    "1" + "0" * 400 + ".5",
    "1_000",
    "0x1p3",
    "١٢",
    "１",
    "²",
    "①",
    "𝟏",
    "",
    " ",
    "\t1\n",
    "\0",
    "1\0",
    "\u2028",
    "\x7f\x1b[2J",
    "+",
    "-",
    "+-1",
    "-0",
    "1.",
    ".",
    "*",
    "**",
    "%s%n{}",
)
"""What no setting means."""
NAMES: dict[ResourceType, str] = {
    ResourceType.TOPIC: "orders",
    ResourceType.BROKER: "",
    ResourceType.GROUP: "readers",
    ResourceType.CLIENT_METRICS: "metrics",
}
SETTINGS: dict[ResourceType, Any] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.BROKER: TABLE,
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}
ANSWERS = {ErrorCode.none, ErrorCode.invalid_config, ErrorCode.invalid_request}


def every_setting() -> Iterator[Any]:
    for kind, table in SETTINGS.items():
        for name in (*table, "no.such.setting"):
            yield pytest.param(kind, name, id=f"{kind.name.lower()}-{name}")


def changed(kind: ResourceType, name: str, *configs: tuple[str, int, str | None]) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": config, "config_operation": operation, "value": value}
            for config, operation, value in configs
        ],
    }


async def code_of(
    bench: HandlerBench, api: str, version: int, resource: dict[str, Any]
) -> ErrorCode:
    answer = await bench.ask(api, version, resources=[resource], validate_only=True)
    (response,) = answer.responses
    assert len((response.error_message or "").encode()) <= LONGEST
    return ErrorCode(response.error_code)


@pytest.mark.parametrize(("kind", "setting"), [*every_setting()])
async def test_values_of_settings(
    bench: HandlerBench, topic: str, kind: ResourceType, setting: str
) -> None:
    assert topic == NAMES[ResourceType.TOPIC]
    for text in HOSTILE:
        for operation in (0, 2, 3):
            resource = changed(kind, NAMES[kind], (setting, operation, text))
            code = await code_of(bench, "incremental_alter_configs", 1, resource)
            assert code in ANSWERS, (text[:20], operation)
    of_broker = (ResourceType.BROKER, "0")
    for text in HOSTILE if kind is ResourceType.BROKER else ():
        code = await code_of(
            bench, "incremental_alter_configs", 1, changed(*of_broker, (setting, 0, text))
        )
        assert code in ANSWERS, text[:20]


@pytest.mark.parametrize("setting", sorted(TOPIC_CONFIGS))
async def test_values_of_new_topics(bench: HandlerBench, setting: str) -> None:
    topics = [
        {
            "name": f"t{number}",
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [{"name": setting, "value": text}],
        }
        for number, text in enumerate(HOSTILE)
    ]
    created = await bench.ask("create_topics", 7, topics=topics, timeout=9_000, validate_only=False)
    assert {topic.error_code for topic in created.topics} <= ANSWERS
    # What was accepted is described, and acts.
    for each in bench.topics.all():
        resource = {"resource_type": ResourceType.TOPIC, "resource_name": each.name}
        described = await bench.ask(
            "describe_configs", 4, resources=[resource | {"configuration_keys": None}]
        )
        assert described.results[0].error_code == ErrorCode.none


@pytest.mark.parametrize("kind", ResourceType)
async def test_names_of_resources(bench: HandlerBench, topic: str, kind: ResourceType) -> None:
    assert topic
    refusals = ANSWERS | {
        ErrorCode.invalid_topic_exception,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.group_id_not_found,
        ErrorCode.invalid_group_id,
    }
    for name in HOSTILE:
        for api, version in (("incremental_alter_configs", 1), ("alter_configs", 2)):
            code = await code_of(bench, api, version, changed(kind, name))
            assert code in refusals, (api, name[:20])
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        (result,) = (await bench.ask("describe_configs", 4, resources=[resource])).results
        assert result.error_code in refusals, name[:20]
        assert len((result.error_message or "").encode()) <= LONGEST


async def test_a_broker_id_is_read_as_java_reads_it(bench: HandlerBench) -> None:
    for name in ("0", "+0", "-0", "000", "٠", "０", "0" * 5_000):
        resource = changed(ResourceType.BROKER, name)
        assert await code_of(bench, "incremental_alter_configs", 1, resource) == ErrorCode.none
    resource = changed(ResourceType.BROKER, "9" * 5_000)
    response = await bench.ask("incremental_alter_configs", 1, resources=[resource])
    assert response.responses[0].error_message == (
        "Node id must be an integer, but it is: " + "9" * 5_000
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("2147483648", None),
        ("-2147483649", None),
        ("1_0", None),
        (" 1", None),
        ("1\0", None),
        ("𝟏", None),
        ("", None),
        ("+", None),
        ("١٢", 12),
    ],
)
def test_integers_of_java(text: str, number: int | None) -> None:
    assert java_int(text) == number


@pytest.mark.parametrize("entity_type", ["user", "client-id", "ip", "nonsense", "\0"])
async def test_names_and_values_of_quotas(bench: HandlerBench, entity_type: str) -> None:
    keys = (
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
        "nonsense",
    )
    values = (math.nan, math.inf, -math.inf, 5e-324, -0.0, 1.7e308, 2.0**63, 0.5)
    for name in (*HOSTILE, None, "127.0.0.1"):
        entity = [{"entity_type": entity_type, "entity_name": name}]
        entries = [
            {"entity": entity, "ops": [{"key": key, "value": value, "remove": False}]}
            for key in keys
            for value in values[: None if name is None else 1]
        ]
        response = await bench.ask("alter_client_quotas", 1, entries=entries, validate_only=True)
        assert {entry.error_code for entry in response.entries} <= ANSWERS
        component = {"entity_type": entity_type, "match_type": 0, "match": name}
        described = await bench.ask(
            "describe_client_quotas", 1, components=[component], strict=False
        )
        assert described.error_code in ANSWERS | {ErrorCode.unsupported_version}


async def test_names_of_scram_users(bench: HandlerBench) -> None:
    for name in HOSTILE:
        new = {
            "name": name,
            "mechanism": 1,
            "iterations": 4096,
            "salt": b"s",
            "salted_password": b"p",
        }
        altered = await bench.ask("alter_user_scram_credentials", 0, deletions=[], upsertions=[new])
        assert len(altered.results) == 1
        described = await bench.ask("describe_user_scram_credentials", 0, users=[{"name": name}])
        assert len(described.results) == 1
