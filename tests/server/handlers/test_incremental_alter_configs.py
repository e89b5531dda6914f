"""IncrementalAlterConfigs v0-1."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.server.config.resources import ResourceType
from server.handlers.bench import Bench

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
Config = tuple[str, int, str | None]
NONE = (ErrorCode.none, None)


def resource(kind: int, name: str, *configs: Config) -> dict[str, Any]:
    changes = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in configs
    ]
    return {"resource_type": kind, "resource_name": name, "configs": changes}


async def alter_all(
    bench: Bench, *resources: dict[str, Any], version: int = 1, validate_only: bool = False
) -> list[tuple[ErrorCode, str | None]]:
    fields = {"resources": resources, "validate_only": validate_only}
    responses = (await bench.ask("incremental_alter_configs", version, **fields)).responses
    asked = [(each["resource_type"], each["resource_name"]) for each in resources]
    assert [(each.resource_type, each.resource_name) for each in responses] == asked
    return [(each.error_code, each.error_message) for each in responses]


async def alter(
    bench: Bench, kind: int, name: str, *configs: Config, **how: Any
) -> tuple[ErrorCode, str | None]:
    (result,) = await alter_all(bench, resource(kind, name, *configs), **how)
    return result


def configs_of(bench: Bench, topic: str) -> dict[str, str]:
    return dict(bench.topics.get(topic).configs)  # type: ignore[union-attr]


@pytest.mark.parametrize("version", [0, 1])
async def test_altered_at_once_and_for_good(bench: Bench, topic: str, version: int) -> None:
    log = bench.topics.log(topic, 0)
    assert log is not None
    assert await alter(bench, TOPIC, topic, ("retention.ms", SET, "5"), version=version) == NONE
    assert log.config.retention_ms == 5
    assert (
        await alter(bench, TOPIC, topic, ("cleanup.policy", APPEND, "compact"), version=version)
        == NONE
    )
    assert log.config.cleanup_policy == {"delete", "compact"}
    bench.restart()
    assert configs_of(bench, topic) == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert (
        await alter(bench, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"), version=version)
        == NONE
    )
    assert await alter(bench, TOPIC, topic, ("retention.ms", DELETE, None), version=version) == NONE
    assert configs_of(bench, topic) == {"cleanup.policy": "compact"}


async def test_validate_only(bench: Bench, topic: str) -> None:
    assert await alter(bench, TOPIC, topic, ("retention.ms", SET, "5"), validate_only=True) == NONE
    assert configs_of(bench, topic) == {}
    refusal = await alter(bench, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True)
    assert refusal[0] is ErrorCode.invalid_config


async def test_a_resource_is_altered_as_a_whole_or_not_at_all(bench: Bench, topic: str) -> None:
    changes = (("segment.ms", SET, "100"), ("retention.ms", SET, "x"))
    assert await alter(bench, TOPIC, topic, *changes) == (
        ErrorCode.invalid_config,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    )
    assert configs_of(bench, topic) == {}


async def test_one_that_fails_does_not_stop_the_others(bench: Bench, topic: str) -> None:
    change = ("retention.ms", SET, "5")
    results = await alter_all(
        bench, resource(TOPIC, "nope", change), resource(TOPIC, topic, change)
    )
    assert results == [
        (ErrorCode.unknown_topic_or_partition, "The topic 'nope' does not exist."),
        NONE,
    ]
    assert configs_of(bench, topic) == {"retention.ms": "5"}
    assert await alter_all(bench) == []


async def test_a_resource_twice(bench: Bench, topic: str) -> None:
    both = [resource(TOPIC, topic, ("retention.ms", SET, value)) for value in ("5", "6")]
    refusal = (ErrorCode.invalid_request, "Each resource must appear at most once.")
    assert await alter_all(bench, *both) == [refusal, refusal]
    assert configs_of(bench, topic) == {}


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("", ErrorCode.invalid_request, "Default topic resources are not allowed."),
        (
            "bad name",
            ErrorCode.invalid_topic_exception,
            "Topic name is invalid: 'bad name' contains one or more characters other "
            "than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
    ],
)
async def test_names(bench: Bench, name: str, code: ErrorCode, message: str) -> None:
    assert await alter(bench, TOPIC, name, ("retention.ms", SET, "5")) == (code, message)


async def test_operations_that_do_not_exist(bench: Bench, topic: str) -> None:
    for operation in (-1, 4):
        assert (await alter(bench, TOPIC, topic, ("retention.ms", operation, "5")))[
            0
        ] is ErrorCode.invalid_request


async def test_nothing_to_alter(bench: Bench, topic: str) -> None:
    assert await alter(bench, TOPIC, topic) == NONE
    assert await alter(bench, BROKER, "0") == NONE


async def test_broker_configs_are_set_when_it_starts(bench: Bench) -> None:
    for name in ("0", ""):
        code, message = await alter(
            bench, BROKER, name, ("log.retention.ms", SET, "5"), ("node.id", SET, "5")
        )
        assert code is ErrorCode.invalid_request
        assert (message or "").startswith(
            "Cannot update these configs dynamically: [log.retention.ms, node.id]"
        )
    assert await alter(bench, BROKER, "2", ("log.retention.ms", SET, "5")) == (
        ErrorCode.invalid_request,
        "Unexpected broker id, expected 0, but received 2",
    )


async def test_there_are_no_loggers_to_set(bench: Bench) -> None:
    logger = ResourceType.BROKER_LOGGER
    assert await alter(bench, logger, "0", ("kafka.log", SET, "INFO")) == (
        ErrorCode.invalid_config,
        "Logger kafka.log does not exist!",
    )
    assert (await alter(bench, logger, "2", ("kafka.log", SET, "INFO")))[
        0
    ] is ErrorCode.invalid_request


async def test_groups_have_no_configs_yet(bench: Bench) -> None:
    assert await alter(bench, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == (
        ErrorCode.invalid_config,
        "Unknown group config name: consumer.session.timeout.ms",
    )
    assert await alter(bench, GROUP, "g", ("nope", DELETE, None)) == NONE
    assert await alter(bench, GROUP, "", ("nope", SET, "1")) == (
        ErrorCode.invalid_request,
        "Default group resources are not allowed.",
    )


async def test_other_resources(bench: Bench) -> None:
    for kind in (0, 3, 16):
        assert await alter(bench, kind, "x", ("a", SET, "b")) == (
            ErrorCode.invalid_request,
            f"Unknown resource type {kind}",
        )
