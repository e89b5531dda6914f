"""The configs of brokers that decide what the records of groups mean."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kohort.history.group_fold import GroupOptions

BROKER_CONFIGS: Final = {
    "offsets.retention.minutes": ("retention_ms", 60_000),
    "group.consumer.session.timeout.ms": ("consumer_session_timeout_ms", 1),
    "group.consumer.heartbeat.interval.ms": ("consumer_heartbeat_interval_ms", 1),
}
"""Config of brokers → option of the fold, and its unit in ms."""


def options_of_configs(configs: Mapping[str, str | None]) -> "GroupOptions":
    """The options by the configs of a broker; Kafka's defaults where these have no number."""
    from kohort.history.group_fold import GroupOptions  # loads pyarrow, which `--help` does without

    numbers: dict[str, Any] = {
        option: int(value) * unit
        for name, (option, unit) in BROKER_CONFIGS.items()
        if (value := configs.get(name) or "").isdecimal()
    }
    return GroupOptions(**numbers)
