"""Settings of groups, their offsets, and transactions."""

from typing import Final

from kohort.server.config.definition import INT_MAX
from kohort.server.config.rows import DAY_MS, HOUR_MS, MEBI, int_row, list_row, long_row, string_row

GROUP_BOUNDED: Final = (
    "session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms",
)  # fmt: skip
"""Configs of consumer groups: the default is `group.consumer.NAME`, the bounds are
`group.consumer.min.NAME` and `group.consumer.max.NAME`.
"""

# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
GROUPS: Final = (
    int_row("group.min.session.timeout.ms", 6_000,
        doc="Minimum session timeout of classic members. Lower values are rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    int_row("group.max.session.timeout.ms", 1_800_000,
        doc="Maximum session timeout of classic members. Higher values are rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    int_row("group.initial.rebalance.delay.ms", 3_000,
        doc="Time that an empty group waits for more members before its first rebalance "
        "completes. 0 with --dev.",
    ),
    long_row("group.pending.max.bytes", 64 * MEBI, minimum=MEBI, kohort_only=True,
        doc="Maximum memory of member ids that were returned with MEMBER_ID_REQUIRED and have not "
        "joined yet. Beyond it, the oldest are removed. One half is divided evenly among the "
        "partitions of __consumer_offsets; the other half is shared.",
    ),
    int_row("group.max.size", INT_MAX, minimum=1,
        doc="Maximum number of members of a classic group. Further members are rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
)

CONSUMER_GROUPS: Final = (
    list_row("group.coordinator.rebalance.protocols", ("classic", "consumer"),
        choices=("classic", "consumer"),
        doc="Enabled group protocols; classic is always enabled. Kafka also supports streams.",
    ),
    int_row("group.consumer.session.timeout.ms", 45_000, minimum=1,
        doc="Session timeout of consumer groups (KIP-848); default of a group's "
        "consumer.session.timeout.ms.",
    ),
    int_row("group.consumer.min.session.timeout.ms", 45_000, minimum=1,
        doc="Minimum consumer.session.timeout.ms of a group.",
    ),
    int_row("group.consumer.max.session.timeout.ms", 60_000, minimum=1,
        doc="Maximum consumer.session.timeout.ms of a group.",
    ),
    int_row("group.consumer.heartbeat.interval.ms", 5_000, minimum=1,
        doc="Heartbeat interval of consumer groups; default of a group's "
        "consumer.heartbeat.interval.ms.",
    ),
    int_row("group.consumer.min.heartbeat.interval.ms", 5_000, minimum=1,
        doc="Minimum consumer.heartbeat.interval.ms of a group.",
    ),
    int_row("group.consumer.max.heartbeat.interval.ms", 15_000, minimum=1,
        doc="Maximum consumer.heartbeat.interval.ms of a group.",
    ),
    int_row("group.consumer.assignment.interval.ms", 1_000, minimum=0,
        doc="Minimum time between two target assignments of a consumer group; default of a "
        "group's consumer.assignment.interval.ms. 0 with --dev.",
    ),
    int_row("group.consumer.min.assignment.interval.ms", 0, minimum=0,
        doc="Minimum consumer.assignment.interval.ms of a group.",
    ),
    int_row("group.consumer.max.assignment.interval.ms", 15_000, minimum=0,
        doc="Maximum consumer.assignment.interval.ms of a group.",
    ),
    int_row("group.consumer.max.size", INT_MAX, minimum=1,
        doc="Maximum number of members of a consumer group. Further members are rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
    list_row("group.consumer.assignors", ("uniform", "range"), choices=("uniform", "range"),
        doc="Server-side assignors of consumer groups. The first one is the default.",
    ),
    string_row("group.consumer.migration.policy", "bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        doc="Allowed conversions of non-empty groups. upgrade: to a consumer group, when a member "
        "joins by the consumer protocol; downgrade: to a classic group, when the last such "
        "member leaves. disabled: no classic member joins a consumer group with members.",
    ),
)

OFFSETS: Final = (
    int_row("offset.metadata.max.bytes", 4_096,
        doc="Maximum length of the metadata of a commit, in characters. Longer metadata is "
        "rejected with OFFSET_METADATA_TOO_LARGE.",
    ),
    int_row("offsets.retention.minutes", 10_080, minimum=1,
        doc="Retention time of committed offsets, from the time when the group became empty, or "
        "from the commit (KIP-211).",
    ),
    long_row("offsets.retention.check.interval.ms", 600_000, minimum=1,
        doc="Interval of the check for expired offsets and groups.",
    ),
    int_row("offsets.topic.num.partitions", 50, minimum=1,
        doc="Number of partitions of __consumer_offsets. Applies when the topic is created, at "
        "the first start.",
    ),
    int_row("offsets.topic.segment.bytes", 4 * MEBI, minimum=MEBI,
        doc="Segment size of __consumer_offsets. Applies when the topic is created. The active "
        "segment is not compacted, so larger segments make startup slower.",
    ),
)

TRANSACTIONS: Final = (
    int_row("transaction.max.timeout.ms", 900_000, minimum=1,
        doc="Maximum transaction.timeout.ms of a producer. Higher values are rejected with "
        "INVALID_TRANSACTION_TIMEOUT.",
    ),
    int_row("transactional.id.expiration.ms", 7 * DAY_MS, minimum=1,
        doc="Time without a transaction after which a transactional id expires.",
    ),
    int_row("transaction.remove.expired.transaction.cleanup.interval.ms", HOUR_MS, minimum=1,
        doc="Interval of the check for expired transactional ids.",
    ),
    int_row("transaction.state.log.num.partitions", 50, minimum=1,
        doc="Number of partitions of __transaction_state. Applies when the topic is created, at "
        "the first start.",
    ),
    int_row("transaction.state.log.segment.bytes", 4 * MEBI, minimum=MEBI,
        doc="Segment size of __transaction_state. Applies when the topic is created. The active "
        "segment is not compacted, so larger segments make startup slower.",
    ),
)
