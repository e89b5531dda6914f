"""Settings of topics, their logs, and requests to them."""

from typing import Final

from kohort.protocol.compression import MAX_DECOMPRESSED
from kohort.server.config.definition import LONG_MAX
from kohort.server.config.rows import (
    DAY_MS,
    HOUR_MS,
    MEBI,
    boolean_row,
    double_row,
    int_row,
    list_row,
    long_row,
    string_row,
)

# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
TOPICS: Final = (
    boolean_row("auto.create.topics.enable", True,
        doc="Whether a Metadata request for an unknown topic creates it.",
    ),
    int_row("num.partitions", 1, minimum=1,
        doc="Default number of partitions of new topics.",
    ),
    boolean_row("delete.topic.enable", True,
        doc="Whether topics can be deleted. If false, DeleteTopics is rejected with "
        "TOPIC_DELETION_DISABLED.",
    ),
    int_row("message.max.bytes", MEBI + 12, minimum=0,
        doc="Maximum size of a record batch; default of a topic's max.message.bytes.",
    ),
    int_row("max.decompressed.message.bytes", MAX_DECOMPRESSED, minimum=1, maximum=MAX_DECOMPRESSED,
        doc="Maximum size of a decompressed record of a compressed batch; default of a topic's "
        "max.decompressed.message.bytes.",
    ),
    string_row("compression.type", "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="Compression codec of stored batches; default of a topic's compression.type. "
        "producer: as produced. Batches with another codec are recompressed.",
    ),
    string_row("log.message.timestamp.type", "CreateTime", choices=("CreateTime", "LogAppendTime"),
        doc="Timestamp of records: set by the producer (CreateTime) or by the server "
        "(LogAppendTime); default of a topic's message.timestamp.type.",
    ),
    long_row("log.message.timestamp.before.max.ms", LONG_MAX, minimum=0,
        doc="Maximum age of a record's CreateTime; default of a topic's "
        "message.timestamp.before.max.ms.",
    ),
    long_row("log.message.timestamp.after.max.ms", HOUR_MS, minimum=0,
        doc="Maximum time by which a record's CreateTime may be in the future; default of a "
        "topic's message.timestamp.after.max.ms.",
    ),
)

LOG: Final = (
    long_row("log.retention.ms", None, minimum=-1,
        doc="Retention time of segments; default of a topic's retention.ms. -1: unlimited. Null: "
        "log.retention.minutes, then log.retention.hours.",
    ),
    int_row("log.retention.minutes", None, minimum=-1, doc="log.retention.ms in minutes."),
    int_row("log.retention.hours", 168, minimum=-1, doc="log.retention.ms in hours."),
    long_row("log.retention.bytes", -1,
        doc="Maximum size of a partition, beyond which the oldest segments are deleted; default "
        "of a topic's retention.bytes. -1: unlimited.",
    ),
    long_row("log.retention.check.interval.ms", 300_000, minimum=1,
        doc="Interval of the check for segments to delete.",
    ),
    int_row("log.segment.bytes", 1024 * MEBI, minimum=MEBI,
        doc="Maximum size of a segment; default of a topic's segment.bytes.",
    ),
    long_row("log.roll.ms", None, minimum=1,
        doc="Maximum age of the active segment; default of a topic's segment.ms. Null: "
        "log.roll.hours.",
    ),
    int_row("log.roll.hours", 168, minimum=1, doc="log.roll.ms in hours."),
    int_row("log.index.interval.bytes", 4_096, minimum=0,
        doc="Bytes between two entries of the offset index; default of a topic's "
        "index.interval.bytes.",
    ),
    list_row("log.cleanup.policy", ("delete",), choices=("delete", "compact"),
        doc="Cleanup policy of segments; default of a topic's cleanup.policy.",
    ),
)

CLEANER: Final = (
    long_row("log.cleaner.backoff.ms", 15_000, minimum=0,
        doc="Interval of the check for partitions to compact.",
    ),
    double_row("log.cleaner.min.cleanable.ratio", 0.5, minimum=0, maximum=1,
        doc="Minimum ratio of uncompacted to total bytes before a log is compacted; default of a "
        "topic's min.cleanable.dirty.ratio.",
    ),
    long_row("log.cleaner.delete.retention.ms", DAY_MS, minimum=0,
        doc="Retention time of tombstones; default of a topic's delete.retention.ms.",
    ),
    long_row("log.cleaner.min.compaction.lag.ms", 0, minimum=0,
        doc="Minimum age of a record before it is compacted; default of a topic's "
        "min.compaction.lag.ms.",
    ),
    long_row("log.cleaner.max.compaction.lag.ms", LONG_MAX, minimum=1,
        doc="Maximum age of an uncompacted record; default of a topic's max.compaction.lag.ms.",
    ),
)

PRODUCE_AND_FETCH: Final = (
    int_row("producer.id.expiration.ms", DAY_MS, minimum=1,
        doc="Time after which the state of an idle idempotent producer expires.",
    ),
    int_row("fetch.max.bytes", 55 * MEBI, minimum=1_024,
        doc="Maximum size of the records in a Fetch response.",
    ),
    int_row("max.incremental.fetch.session.cache.slots", 1_000, minimum=0,
        doc="Maximum number of incremental fetch sessions. Further clients use full fetches.",
    ),
)
