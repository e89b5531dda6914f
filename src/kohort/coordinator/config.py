"""Configuration of the coordinator, by Kafka's names and with Kafka's defaults."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_MESSAGE_BYTES: Final = 1_048_588
"""Default of `message.max.bytes`."""

PENDING_GROUP_WEIGHT: Final = 100


class MigrationPolicy(StrEnum):
    """Whether groups with members may be upgraded to consumer groups, or downgraded."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """Settings of one consumer group (KIP-848), in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """Minimum time between two computations of the target assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig:
    """Times in ms, sizes in bytes."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    """Time that a member may stay parked before its first join completes.

    A constant of Kafka's GroupCoordinatorConfig.
    """
    offset_metadata_max_bytes: int = 4_096
    """Counted in UTF-16 units, as Java counts the chars of a string."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    max_commit_bytes: int = MAX_MESSAGE_BYTES
    """Maximum size of the batch of one OffsetCommit: at most 18,000 partitions."""
    max_pending_offsets: int = 100_000
    """Maximum pending offsets of one transaction in a partition of `__consumer_offsets`.

    Each of its groups counts as much as `PENDING_GROUP_WEIGHT` offsets.
    """
    max_pending_bytes: int = 32 * 1024 * 1024
    """Maximum memory of pending member ids in all partitions of `__consumer_offsets`."""
    min_pending_bytes: int = 0
    """Memory of pending member ids that each partition may use in any case."""
    max_record_bytes: int = MAX_MESSAGE_BYTES
    """`message.max.bytes` of `__consumer_offsets`: a group with a larger record cannot be synced.
    """
    consumer: ConsumerGroupConfig = ConsumerGroupConfig()
    """Default settings of consumer groups."""
    consumer_of: Callable[[str], ConsumerGroupConfig | None] = lambda _: None
    """The settings of a group with settings of its own, else None."""
    consumer_max_size: int = 2**31 - 1
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    consumer_rejoin_lost: bool = False
    """Members of a nonexistent consumer group get UNKNOWN_MEMBER_ID, and rejoin.

    Kafka's GROUP_ID_NOT_FOUND is fatal to librdkafka's consumers.
    """
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors that a member may name; the first one is the default."""

    def consumer_group(self, group: str) -> ConsumerGroupConfig:
        """The settings of a consumer group."""
        return self.consumer_of(group) or self.consumer
