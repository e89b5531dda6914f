"""Settings of the two coordinators, as their pure cores take them."""

from kohort.coordinator.config import GroupCoordinatorConfig, MigrationPolicy
from kohort.server.config.config import Config
from kohort.server.config.group_configs import consumer_group_config
from kohort.transactions.config import TransactionCoordinatorConfig


def group_coordinator_config(config: Config) -> GroupCoordinatorConfig:
    """The settings of the group coordinator, without those that single groups have set."""
    # A batch may begin with other commits, and must fit into a segment.
    max_bytes = min(config["message.max.bytes"], config["offsets.topic.segment.bytes"] // 2 - 4_096)
    return GroupCoordinatorConfig(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        consumer_migration_policy=MigrationPolicy(config["group.consumer.migration.policy"]),
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
        max_record_bytes=max_bytes,
        max_commit_bytes=max_bytes,
        max_pending_bytes=config["group.pending.max.bytes"] // 2,
        min_pending_bytes=config["group.pending.max.bytes"]
        // (2 * config["offsets.topic.num.partitions"]),
        consumer=consumer_group_config(config, {}),
        consumer_max_size=config["group.consumer.max.size"],
        consumer_rejoin_lost=shows_restarts(config),
        consumer_assignors=config["group.consumer.assignors"],
    )


def transaction_coordinator_config(config: Config) -> TransactionCoordinatorConfig:
    """The settings of the transaction coordinator."""
    return TransactionCoordinatorConfig(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        id_expiration_ms=config["transactional.id.expiration.ms"],
        # A batch must fit into a segment.
        max_record_bytes=min(
            config["message.max.bytes"], config["transaction.state.log.segment.bytes"] // 2
        ),
    )


def shows_restarts(config: Config) -> bool:
    """Whether clients shall notice that the server before had other records and groups."""
    return config["storage"] == "memory" and bool(config["memory.restart.visible"])
