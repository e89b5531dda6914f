"""Settings of consumer groups (KIP-848): a group's own ones, within the bounds of the broker."""

from collections.abc import Mapping

from kohort.coordinator.config import ConsumerGroupConfig
from kohort.errors import ErrorCode, KafkaError
from kohort.server.config.config import Config
from kohort.server.config.coordinator_configs import GROUP_BOUNDED


def consumer_group_config(config: Config, own: Mapping[str, str]) -> ConsumerGroupConfig:
    """The settings in force of a group that has set `own`.

    They were validated when they were set. If the bounds have changed since, the nearest bound is
    in force.
    """

    def setting(name: str) -> int:
        default: int = config[f"group.consumer.{name}"]
        if (text := own.get(f"consumer.{name}")) is None:
            return default
        low, high = (config[f"group.consumer.{bound}.{name}"] for bound in ("min", "max"))
        nearest: int = min(max(int(text), low), high)
        return nearest

    return ConsumerGroupConfig(
        session_timeout_ms=setting("session.timeout.ms"),
        heartbeat_interval_ms=setting("heartbeat.interval.ms"),
        assignment_interval_ms=setting("assignment.interval.ms"),
    )


def validate_consumer_configs(own: Mapping[str, str], config: Config) -> None:
    """Raises KafkaError INVALID_CONFIG for numbers that are out of the broker's bounds."""
    for name in GROUP_BOUNDED:
        if (text := own.get(f"consumer.{name}")) is None:
            continue
        low, high = (f"group.consumer.{bound}.{name}" for bound in ("min", "max"))
        if int(text) < config[low]:
            raise _invalid(f"consumer.{name} must be greater than or equal to {low}")
        if int(text) > config[high]:
            raise _invalid(f"consumer.{name} must be less than or equal to {high}")
    settings = consumer_group_config(config, own)
    if settings.session_timeout_ms <= settings.heartbeat_interval_ms:
        raise _invalid(
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
        )


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_config, text)
