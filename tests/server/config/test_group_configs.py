"""Settings of consumer groups: their own, within the bounds of the broker."""

import pytest

from kohort.coordinator.config import ConsumerGroupConfig
from kohort.errors import ErrorCode, KafkaError
from kohort.server.config import (
    Config,
    ResourceType,
    consumer_group_config,
    describe_resource,
    validate_configs,
)

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_groups_without_settings_have_those_of_the_broker() -> None:
    assert consumer_group_config(Config(), {}) == ConsumerGroupConfig()
    config = Config({"group.consumer.assignment.interval.ms": 7})
    assert consumer_group_config(config, {}) == ConsumerGroupConfig(assignment_interval_ms=7)


def test_settings_of_a_group_come_first() -> None:
    own = {SESSION: "50000", HEARTBEAT: " 6000", "share.delivery.count.limit": "7"}
    assert consumer_group_config(Config(), own) == ConsumerGroupConfig(
        session_timeout_ms=50_000, heartbeat_interval_ms=6_000
    )


def test_stored_settings_out_of_the_bounds_act_as_the_nearest_bound() -> None:
    own = {SESSION: "1000", HEARTBEAT: "900000"}
    assert consumer_group_config(Config(), own) == ConsumerGroupConfig(
        session_timeout_ms=45_000, heartbeat_interval_ms=15_000
    )


def test_the_session_timeout_is_longer_than_the_heartbeat_interval() -> None:
    config = Config({"group.consumer.min.session.timeout.ms": 10_000})
    validate_configs(ResourceType.GROUP, {SESSION: "15001", HEARTBEAT: "15000"}, config)
    with pytest.raises(KafkaError, match=f"{SESSION} must be greater than {HEARTBEAT}") as caught:
        validate_configs(ResourceType.GROUP, {SESSION: "15000", HEARTBEAT: "15000"}, config)
    assert caught.value.code == ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("errors.deadletterqueue.topic.name", ("", "t", "dlq.t"), ("__consumer_offsets", " __x")),
        ("errors.deadletterqueue.copy.record.enable", ("true",), ("yes",)),
        ("streams.assignor.name", ("sticky",), ("odd", "")),
        ("streams.rack.aware.assignment.tags", ("", "zone", "zone,rack"), ("zone,zone",)),
        ("streams.task.offset.interval.ms", ("15000",), ("14999",)),
    ],
)
def test_configs_without_effect_are_judged_as_in_kafka(
    name: str, accepted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    for value in accepted:
        assert validate_configs(ResourceType.GROUP, {name: value}, Config()) == {name: value}
    for value in refused:
        with pytest.raises(KafkaError) as caught:
            validate_configs(ResourceType.GROUP, {name: value}, Config())
        assert caught.value.code == ErrorCode.invalid_config


def test_internal_configs_of_groups_are_described_only_where_they_are_set() -> None:
    def names(configs: dict[str, str]) -> set[str]:
        return {one.name for one in describe_resource(ResourceType.GROUP, configs, Config())}

    internal = "streams.num.warmup.replicas"
    assert internal not in names({})
    assert names({internal: "3"}) == {*names({}), internal}
