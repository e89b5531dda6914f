"""IncrementalAlterConfigs v0-1."""

import logging
import threading
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.log.partition import PartitionLog
from kohort.server.config.resources import ResourceType
from server.handlers.bench import HandlerBench

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
METRICS = ResourceType.CLIENT_METRICS
Config = tuple[str, int, str | None]
NONE = (ErrorCode.none, None)


def resource(kind: int, name: str, *configs: Config) -> dict[str, Any]:
    changes = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in configs
    ]
    return {"resource_type": kind, "resource_name": name, "configs": changes}


async def alter_all(
    bench: HandlerBench, *resources: dict[str, Any], version: int = 1, validate_only: bool = False
) -> list[tuple[ErrorCode, str | None]]:
    fields = {"resources": resources, "validate_only": validate_only}
    responses = (await bench.ask("incremental_alter_configs", version, **fields)).responses
    asked = [(each["resource_type"], each["resource_name"]) for each in resources]
    assert [(response.resource_type, response.resource_name) for response in responses] == asked
    return [(response.error_code, response.error_message) for response in responses]


async def alter(
    bench: HandlerBench, kind: int, name: str, *configs: Config, **how: Any
) -> tuple[ErrorCode, str | None]:
    (result,) = await alter_all(bench, resource(kind, name, *configs), **how)
    return result


def configs_of(bench: HandlerBench, topic: str) -> dict[str, str]:
    return dict(bench.topics.get(topic).configs)  # type: ignore[union-attr]


@pytest.mark.parametrize("version", [0, 1])
async def test_altered_at_once_and_for_good(bench: HandlerBench, topic: str, version: int) -> None:
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


async def test_a_validated_change_is_not_set(bench: HandlerBench, topic: str) -> None:
    assert await alter(bench, TOPIC, topic, ("retention.ms", SET, "5"), validate_only=True) == NONE
    assert configs_of(bench, topic) == {}
    refusal = await alter(bench, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True)
    assert refusal[0] is ErrorCode.invalid_config


async def test_a_resource_is_altered_as_a_whole_or_not_at_all(
    bench: HandlerBench, topic: str
) -> None:
    changes = (("segment.ms", SET, "100"), ("retention.ms", SET, "x"))
    assert await alter(bench, TOPIC, topic, *changes) == (
        ErrorCode.invalid_config,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    )
    assert configs_of(bench, topic) == {}


async def test_one_that_fails_does_not_stop_the_others(bench: HandlerBench, topic: str) -> None:
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


async def test_a_resource_twice(bench: HandlerBench, topic: str) -> None:
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
async def test_an_empty_or_invalid_topic_name_is_refused(
    bench: HandlerBench, name: str, code: ErrorCode, message: str
) -> None:
    assert await alter(bench, TOPIC, name, ("retention.ms", SET, "5")) == (code, message)


async def test_operations_that_do_not_exist(bench: HandlerBench, topic: str) -> None:
    for operation in (-1, 4):
        assert (await alter(bench, TOPIC, topic, ("retention.ms", operation, "5")))[
            0
        ] is ErrorCode.invalid_request


async def test_a_resource_without_changes_is_no_error(bench: HandlerBench, topic: str) -> None:
    assert await alter(bench, TOPIC, topic) == NONE
    assert await alter(bench, BROKER, "0") == NONE


class TestBrokers:
    async def described(self, bench: HandlerBench, name: str, key: str) -> list[tuple[str, int]]:
        """(value, source) of each synonym."""
        resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": [key]}
        response = await bench.ask(
            "describe_configs", 4, resources=[resource], include_synonyms=True
        )
        return [
            (synonym.value, synonym.source)
            for config in response.results[0].configs
            for synonym in config.synonyms
        ]

    async def test_a_change_acts_and_stays(self, bench: HandlerBench, topic: str) -> None:
        bench.controller.topics.create("own", 1, {"segment.bytes": "2000000"})
        key = "log.segment.bytes"
        assert await alter(bench, BROKER, "", (key, SET, "1100000")) == NONE
        assert await alter(bench, BROKER, "0", (key, SET, "1200000")) == NONE
        chain = [("1200000", 2), ("1100000", 3), ("1073741824", 5)]
        for _ in range(2):
            assert bench.config[key] == 1_200_000
            assert self.segment_bytes(bench, topic, "own") == [1_200_000, 2_000_000]
            assert await self.described(bench, "0", key) == chain
            assert await self.described(bench, "", key) == [("1100000", 3)]
            bench.restart()
        assert await alter(bench, BROKER, "0", (key, DELETE, None)) == NONE
        assert self.segment_bytes(bench, topic, "own") == [1_100_000, 2_000_000]
        assert await alter(bench, BROKER, "", (key, DELETE, None)) == NONE
        bench.restart()
        assert self.segment_bytes(bench, topic, "own") == [1 << 30, 2_000_000]
        assert await self.described(bench, "", key) == []

    def segment_bytes(self, bench: HandlerBench, *topics: str) -> list[int]:
        logs = [bench.topics.log(name, 0) for name in topics]
        return [log.config.segment_bytes for log in logs if log is not None]

    async def test_clients_win_over_what_the_server_was_started_with(self) -> None:
        bench = HandlerBench(log_retention_hours=5)
        bench.controller.topics.create("t", 1)
        assert await alter(bench, BROKER, "0", ("log.retention.ms", SET, "7000")) == NONE
        assert bench.topics.log("t", 0).config.retention_ms == 7_000  # type: ignore[union-attr]
        assert await self.described(bench, "0", "log.retention.ms") == [
            ("7000", 2),
            ("5", 4),
            ("168", 5),
        ]

    async def test_lists_grow_and_shrink(self, bench: HandlerBench) -> None:
        key = "log.cleanup.policy"
        assert await alter(bench, BROKER, "0", (key, APPEND, "compact")) == NONE
        assert bench.config[key] == ("delete", "compact")
        assert await alter(bench, BROKER, "0", (key, SUBTRACT, "delete")) == NONE
        assert bench.config[key] == ("compact",)
        assert (await alter(bench, BROKER, "0", ("max.connections", APPEND, "5")))[
            0
        ] is ErrorCode.invalid_config

    async def test_read_only_broker_configs_are_refused(self, bench: HandlerBench) -> None:
        for name in ("0", ""):
            assert await alter(
                bench, BROKER, name, ("max.connections", SET, "5"), ("node.id", SET, "5")
            ) == (ErrorCode.invalid_request, "Cannot update these configs dynamically: [node.id]")
        assert bench.config["max.connections"] == 2**31 - 1
        assert await alter(bench, BROKER, "2", ("max.connections", SET, "5")) == (
            ErrorCode.invalid_request,
            "Unexpected broker id, expected 0, but received 2",
        )

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("max.connections", "many"),
            ("max.connections", "0"),
            ("max.connections.per.ip", "0"),
            ("max.connections", None),
            ("log.retention.ms", "0"),
            ("log.cleanup.policy", "shrink"),
        ],
    )
    async def test_invalid_values_of_broker_configs_are_refused(
        self, bench: HandlerBench, key: str, value: str | None
    ) -> None:
        before = bench.controller.writer.last_change
        code, _ = await alter(bench, BROKER, "0", (key, SET, value))
        assert code is ErrorCode.invalid_request
        assert bench.controller.writer.last_change == before

    async def test_unknown_names_change_nothing(self, bench: HandlerBench) -> None:
        before = bench.controller.writer.last_change
        assert await alter(bench, BROKER, "0", ("no.such.config", SET, "5")) == NONE
        assert (
            await alter(bench, BROKER, "0", ("max.connections", SET, "5"), validate_only=True)
            == NONE
        )
        assert bench.controller.writer.last_change == before


class TestLoggers:
    async def test_levels_last_until_the_server_ends(self, bench: HandlerBench) -> None:
        kind, logger = ResourceType.BROKER_LOGGER, logging.getLogger("kohort.test")
        assert await alter(bench, kind, "0", ("kohort.test", SET, "TRACE")) == NONE
        assert logger.isEnabledFor(5)
        change = ("kohort.test", SET, "ERROR")
        assert await alter(bench, kind, "0", change, validate_only=True) == NONE
        assert logger.isEnabledFor(5)
        assert await alter(bench, kind, "0", ("kohort.test", DELETE, None)) == NONE
        assert logger.level == logging.NOTSET

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (("no.such.logger", SET, "INFO"), ErrorCode.invalid_config),
            (("root", SET, "LOUD"), ErrorCode.invalid_config),
            (("root", SET, None), ErrorCode.invalid_request),
            (("root", DELETE, None), ErrorCode.invalid_request),
            (("root", APPEND, "INFO"), ErrorCode.invalid_request),
        ],
    )
    async def test_invalid_log_levels_are_refused(
        self, bench: HandlerBench, change: Config, code: ErrorCode
    ) -> None:
        kind, before = ResourceType.BROKER_LOGGER, logging.getLogger().level
        assert (await alter(bench, kind, "0", change))[0] is code
        assert (await alter(bench, kind, "2", change))[0] is ErrorCode.invalid_request
        assert logging.getLogger().level == before


@pytest.mark.parametrize(
    ("kind", "key", "good", "bad"),
    [
        (GROUP, "consumer.session.timeout.ms", "50000", "5"),
        (GROUP, "share.auto.offset.reset", "by_duration:PT1H", "by_duration:P"),
        (METRICS, "match", "client_id=a.*,client_source_port=9", "client_id=("),
        (METRICS, "metrics", "a,b", None),
    ],
)
async def test_groups_and_subscriptions(
    bench: HandlerBench, kind: int, key: str, good: str, bad: str | None
) -> None:
    async def value() -> str | None:
        resource = {"resource_type": kind, "resource_name": "x", "configuration_keys": [key]}
        response = await bench.ask("describe_configs", 4, resources=[resource])
        told: str | None = response.results[0].configs[0].value
        return told

    default = await value()
    assert await alter(bench, kind, "x", (key, SET, good)) == NONE
    assert (await alter(bench, kind, "x", (key, SET, bad)))[0] is not ErrorCode.none
    bench.restart()
    assert await value() == good
    assert await alter(bench, kind, "x", (key, DELETE, None), ("nope", DELETE, None)) == NONE
    assert await value() == default
    assert (await alter(bench, kind, "x", ("nope", SET, "1")))[0] is ErrorCode.invalid_config
    assert (await alter(bench, kind, "", (key, SET, good)))[0] is ErrorCode.invalid_request


SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([(SESSION, "44999")], f"{SESSION} must be greater than or equal to group.consumer.min."),
        ([(SESSION, "60001")], f"{SESSION} must be less than or equal to group.consumer.max."),
        ([(HEARTBEAT, "4999")], f"{HEARTBEAT} must be greater than or equal to group.consumer."),
        ([(HEARTBEAT, "15001")], f"{HEARTBEAT} must be less than or equal to group.consumer."),
        ([(ASSIGNMENT, "15001")], f"{ASSIGNMENT} must be less than or equal to group.consumer."),
        ([(ASSIGNMENT, "-1")], f"Invalid value -1 for configuration {ASSIGNMENT}: Value must be"),
        ([(SESSION, "60000"), (HEARTBEAT, "15000"), (ASSIGNMENT, "0")], None),
    ],
)
async def test_consumer_groups_are_within_the_bounds_of_the_broker(
    bench: HandlerBench, changes: list[tuple[str, str]], reason: str | None
) -> None:
    code, text = await alter(bench, GROUP, "g", *((name, SET, value) for name, value in changes))
    if reason is None:
        assert (code, text) == NONE
    else:
        assert code is ErrorCode.invalid_config
        assert (text or "").startswith(reason)


async def test_unknown_resource_types_are_refused(bench: HandlerBench) -> None:
    for kind in (0, 3, 77):
        assert await alter(bench, kind, "x", ("a", SET, "b")) == (
            ErrorCode.invalid_request,
            f"Unknown resource type {kind}",
        )


async def test_the_loop_waits_for_no_disk(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change is on the disk before the next one is logged, and another thread waits for it."""
    names = [f"t{number}" for number in range(5)]
    for name in names:
        bench.controller.topics.create(name, 1)
    bench.controller.writer.flush()
    threads: list[threading.Thread] = []
    monkeypatch.setattr(PartitionLog, "sync", lambda *_: threads.append(threading.current_thread()))
    changes = [resource(TOPIC, name, ("retention.ms", SET, "5")) for name in names]
    assert await alter_all(bench, *changes) == [NONE] * len(names)
    assert len(threads) == len(names)
    assert threading.main_thread() not in threads
