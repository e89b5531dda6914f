"""The table of all topic configs of Kafka 4.4: type, default, range, and effect in Kohort.

A config that stands for a mechanism of several brokers, or of a file system trick that Kohort does
not use, is accepted so that tools and manifests made for Kafka work unchanged; its text says "no
effect". Defaults that Kafka derives from a broker config (`retention.ms` from `log.retention.ms`)
are derived from it here too.
"""

from typing import Final

from kohort.protocol.compression import MAX_DECOMPRESSED
from kohort.server.config.topic_definition import LONG_MAX, TopicConfig, replica_list

_DAY = 86_400_000

# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
_RETENTION = (
    TopicConfig(
        name="cleanup.policy", kind="list", default=("delete",), choices=("compact", "delete"),
        broker=("log.cleanup.policy",),
        doc="delete: old segments are deleted by age and size. compact: the last value of each key "
        "is kept. Both, separated by a comma. Empty: everything is kept.",
    ),
    TopicConfig(
        name="retention.ms", kind="long", default=7 * _DAY, minimum=-1,
        broker=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="Retention time of a segment after its newest record, with cleanup.policy=delete. -1: "
        "unlimited.",
    ),
    TopicConfig(
        name="retention.bytes", kind="long", default=-1, broker=("log.retention.bytes",),
        doc="Maximum size of a partition, beyond which its oldest segments are deleted, with "
        "cleanup.policy=delete. -1: unlimited.",
    ),
    TopicConfig(
        name="delete.retention.ms", kind="long", default=_DAY, minimum=0,
        broker=("log.cleaner.delete.retention.ms",),
        doc="Retention time of tombstones in a compacted topic: the time that a consumer has to "
        "read it from the start.",
    ),
    TopicConfig(
        name="min.cleanable.dirty.ratio", kind="double", default=0.5, minimum=0, maximum=1,
        broker=("log.cleaner.min.cleanable.ratio",),
        doc="Minimum ratio of uncompacted to total bytes before a partition is compacted.",
    ),
    TopicConfig(
        name="min.compaction.lag.ms", kind="long", default=0, minimum=0,
        broker=("log.cleaner.min.compaction.lag.ms",),
        doc="Minimum age of a record before it is compacted.",
    ),
    TopicConfig(
        name="max.compaction.lag.ms", kind="long", default=LONG_MAX, minimum=1,
        broker=("log.cleaner.max.compaction.lag.ms",),
        doc="Maximum age of an uncompacted record.",
    ),
)

_SEGMENTS = (
    TopicConfig(
        name="segment.bytes", kind="int", default=1 << 30, minimum=1 << 20,
        broker=("log.segment.bytes",),
        doc="Maximum size of a segment.",
    ),
    TopicConfig(
        name="segment.ms", kind="long", default=7 * _DAY, minimum=1,
        broker=("log.roll.ms", "log.roll.hours"),
        doc="Maximum age of the active segment, which retention and compaction do not touch.",
    ),
    TopicConfig(
        name="index.interval.bytes", kind="int", default=4_096, minimum=0,
        broker=("log.index.interval.bytes",),
        doc="Bytes between two entries of the offset and time indexes.",
    ),
    TopicConfig(
        name="segment.index.bytes", synonym="log.index.size.max.bytes",
        kind="int", default=10_485_760, minimum=4,
        doc="No effect: an index grows with its segment.",
    ),
    TopicConfig(
        name="segment.jitter.ms", kind="long", default=0, minimum=0,
        doc="No effect: segments of different partitions are not rolled by one thread.",
    ),
    TopicConfig(
        name="file.delete.delay.ms", synonym="log.segment.delete.delay.ms",
        kind="long", default=60_000, minimum=0,
        doc="No effect: a deleted segment's file is removed when its last reader is done.",
    ),
    TopicConfig(
        name="preallocate", synonym="log.preallocate",
        kind="boolean", default=False,
        doc="No effect: segment files grow as records arrive.",
    ),
    TopicConfig(
        name="flush.messages", synonym="log.flush.interval.messages",
        kind="long", default=LONG_MAX, minimum=1,
        doc="No effect: the durability of acknowledged records is a setting of the server.",
    ),
    TopicConfig(
        name="flush.ms", kind="long", default=LONG_MAX, minimum=0,
        doc="No effect: the durability of acknowledged records is a setting of the server.",
    ),
)

_RECORDS = (
    TopicConfig(
        name="max.message.bytes", kind="int", default=1_048_588, minimum=0,
        broker=("message.max.bytes",),
        doc="Maximum size of a record batch after compression. Larger batches are rejected with "
        "MESSAGE_TOO_LARGE.",
    ),
    TopicConfig(
        name="max.decompressed.message.bytes", kind="int", default=MAX_DECOMPRESSED, minimum=1,
        maximum=MAX_DECOMPRESSED, broker=("max.decompressed.message.bytes",),
        doc="Maximum size of a decompressed record of a compressed batch. A batch with a larger "
        "one is rejected with INVALID_RECORD.",
    ),
    TopicConfig(
        name="message.timestamp.type", kind="string", default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        broker=("log.message.timestamp.type",),
        doc="Timestamp of records: set by the producer (CreateTime) or by the server "
        "(LogAppendTime).",
    ),
    TopicConfig(
        name="message.timestamp.before.max.ms", kind="long", default=LONG_MAX, minimum=0,
        broker=("log.message.timestamp.before.max.ms",),
        doc="Maximum age of a record's CreateTime. Older records are rejected with "
        "INVALID_TIMESTAMP.",
    ),
    TopicConfig(
        name="message.timestamp.after.max.ms", kind="long", default=3_600_000, minimum=0,
        broker=("log.message.timestamp.after.max.ms",),
        doc="Maximum time by which a record's CreateTime may be in the future. Later records are "
        "rejected with INVALID_TIMESTAMP.",
    ),
    TopicConfig(
        name="compression.type", kind="string", default="producer", broker=("compression.type",),
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="Compression codec of stored batches. producer: as produced. Batches with another "
        "codec are recompressed.",
    ),
    TopicConfig(
        name="compression.gzip.level", synonym="compression.gzip.level", kind="int", default=-1,
        minimum=-1, maximum=9, excluded=(0,),
        range_text="Value must be between 1 and 9 or equal to -1",
        doc="No effect: recompression uses the default level of gzip.",
    ),
    TopicConfig(
        name="compression.lz4.level", synonym="compression.lz4.level", kind="int", default=9,
        minimum=1, maximum=17,
        doc="No effect: recompression uses the fast level of lz4.",
    ),
    TopicConfig(
        name="compression.zstd.level", synonym="compression.zstd.level", kind="int", default=3,
        minimum=-131_072, maximum=22,
        doc="No effect: recompression with zstd uses level 3.",
    ),
)

_MANY_BROKERS = (
    TopicConfig(
        name="min.insync.replicas", kind="int", default=1, minimum=1,
        # Kafka sets it with the feature eligible.leader.replicas.version (KIP-966).
        set_on_clusters=True,
        doc="No effect: a partition has one replica, whose log has every acknowledged record.",
    ),
    TopicConfig(
        name="unclean.leader.election.enable", synonym="unclean.leader.election.enable",
        kind="boolean", default=False,
        doc="No effect: a partition has one replica.",
    ),
    TopicConfig(
        name="leader.replication.throttled.replicas", kind="list", default=(), check=replica_list,
        doc="No effect: nothing is replicated.",
    ),
    TopicConfig(
        name="follower.replication.throttled.replicas", kind="list", default=(), check=replica_list,
        doc="No effect: nothing is replicated.",
    ),
)

_SHARE = (
    TopicConfig(
        name="errors.deadletterqueue.group.enable", kind="boolean", default=False,
        doc="No effect: share groups are not served.",
    ),
)

_TIERED = (
    TopicConfig(
        name="remote.storage.enable", kind="boolean", default=False,
        doc="Only false: there is no tiered storage.",
    ),
    TopicConfig(
        name="remote.log.copy.disable", kind="boolean", default=False,
        doc="No effect: there is no tiered storage.",
    ),
    TopicConfig(
        name="remote.log.delete.on.disable", kind="boolean", default=False,
        doc="No effect: there is no tiered storage.",
    ),
    TopicConfig(
        name="remote.copy.lag.ms", synonym="log.remote.copy.lag.ms", kind="long", default=0,
        minimum=-1,
        doc="No effect: there is no tiered storage.",
    ),
    TopicConfig(
        name="remote.copy.lag.bytes", synonym="log.remote.copy.lag.bytes", kind="long", default=-1,
        minimum=-1,
        doc="No effect: there is no tiered storage.",
    ),
    TopicConfig(
        name="local.retention.ms", synonym="log.local.retention.ms",
        kind="long", default=-2, minimum=-2,
        doc="No effect: there is no tiered storage; retention.ms applies.",
    ),
    TopicConfig(
        name="local.retention.bytes", synonym="log.local.retention.bytes",
        kind="long", default=-2, minimum=-2,
        doc="No effect: there is no tiered storage; retention.bytes applies.",
    ),
)
# fmt: on

TOPIC_CONFIGS: Final[dict[str, TopicConfig]] = {
    definition.name: definition
    for definition in sorted(
        (*_RETENTION, *_SEGMENTS, *_RECORDS, *_MANY_BROKERS, *_SHARE, *_TIERED),
        key=lambda config: config.name,
    )
}
"""By name, in alphabetical order, which is that of the CreateTopics response."""
