"""Every configuration that acts, in one table: Kafka's name, type, default and range, and what it
does here.

A Kafka name that is missing here does nothing in Kohort, and setting it is refused rather than
ignored. Where a default is not Kafka's, the text says so.
"""

from typing import Final

from kohort.server.addresses import parse_address
from kohort.server.config.definition import INT_MAX, LONG_MAX, ConfigDef

_MEBI = 1024 * 1024
_HOUR = 3_600_000
_DAY = 24 * _HOUR

# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
_SERVER = (
    ConfigDef(
        name="listeners", kind="string", default="127.0.0.1:9092", check=parse_address,
        doc="Address to listen on, HOST:PORT or PLAINTEXT://HOST:PORT; port 0 takes a free one. "
        "Kafka's default is every interface.",
    ),
    ConfigDef(
        name="advertised.listeners", kind="string", default=None, check=parse_address,
        doc="Address that clients are told to connect to; null: the one listened on. Port 0 "
            "stands for "
        "the port listened on.",
    ),
    ConfigDef(
        name="node.id", kind="int", default=0, minimum=0,
        doc="Id of this broker in answers to clients. Kafka has no default.",
    ),
    ConfigDef(name="broker.id", kind="int", default=None, minimum=0, doc="Old name of node.id."),
    ConfigDef(
        name="log.dir", kind="string", default="data",
        doc="Directory of all topics, groups and metadata; one server at a time uses it. "
            "Kafka's default "
        "is /tmp/kafka-logs.",
    ),
)

_CONNECTIONS = (
    ConfigDef(
        name="max.connections", kind="int", default=INT_MAX, minimum=0,
        doc="Connections at a time; beyond it a new one is closed at once.",
    ),
    ConfigDef(
        name="max.connections.per.ip", kind="int", default=INT_MAX, minimum=0,
        doc="Connections at a time from one address; beyond it a new one is closed at once.",
    ),
    ConfigDef(
        name="connections.max.idle.ms", kind="long", default=600_000,
        doc="A connection that sent nothing for so long, and waits for nothing, is closed.",
    ),
    ConfigDef(
        name="socket.request.max.bytes", kind="int", default=100 * _MEBI, minimum=1,
        doc="Largest request; a larger one closes its connection.",
    ),
    ConfigDef(
        name="queued.max.request.bytes", kind="long", default=-1,
        doc="Bytes of requests, over all connections, that may be received and unanswered "
            "before reading "
        "pauses; "
        "-1: unlimited.",
    ),
)

_GROUPS = (
    ConfigDef(
        name="group.min.session.timeout.ms", kind="int", default=6_000,
        doc="Shortest session timeout that a member may ask for; a shorter one is answered "
        "INVALID_SESSION_TIMEOUT.",
    ),
    ConfigDef(
        name="group.max.session.timeout.ms", kind="int", default=1_800_000,
        doc="Longest session timeout that a member may ask for; a longer one is answered "
        "INVALID_SESSION_TIMEOUT.",
    ),
    ConfigDef(
        name="group.initial.rebalance.delay.ms", kind="int", default=3_000,
        doc="How long an empty group waits for more members before its first rebalance "
            "completes; 0 with "
        "--dev.",
    ),
    ConfigDef(
        name="group.max.size", kind="int", default=INT_MAX, minimum=1,
        doc="Members of one group; beyond it a join is answered GROUP_MAX_SIZE_REACHED.",
    ),
)

_OFFSETS = (
    ConfigDef(
        name="offset.metadata.max.bytes", kind="int", default=4_096,
        doc="Longest metadata of a commit, in characters; a longer one is answered "
        "OFFSET_METADATA_TOO_LARGE.",
    ),
    ConfigDef(
        name="offsets.retention.minutes", kind="int", default=10_080, minimum=1,
        doc="Committed offsets expire so long after their group became empty, or after their "
            "commit "
        "(KIP-211).",
    ),
    ConfigDef(
        name="offsets.retention.check.interval.ms", kind="long", default=600_000, minimum=1,
        doc="How often expired offsets and groups are looked for.",
    ),
    ConfigDef(
        name="offsets.topic.num.partitions", kind="int", default=50, minimum=1,
        doc="Partitions of __consumer_offsets; read when the topic is made, at the first start.",
    ),
    ConfigDef(
        name="offsets.topic.segment.bytes", kind="int", default=100 * _MEBI, minimum=_MEBI,
        doc="Segment size of __consumer_offsets; small, so that loading and compaction are fast.",
    ),
)

_TOPICS = (
    ConfigDef(
        name="auto.create.topics.enable", kind="boolean", default=True,
        doc="Whether asking for the metadata of an unknown topic makes it.",
    ),
    ConfigDef(
        name="num.partitions", kind="int", default=1, minimum=1,
        doc="Partitions of a topic that is made automatically, or without a number.",
    ),
    ConfigDef(
        name="delete.topic.enable", kind="boolean", default=True,
        doc="Whether DeleteTopics is served; else it is answered TOPIC_DELETION_DISABLED.",
    ),
    ConfigDef(
        name="message.max.bytes", kind="int", default=_MEBI + 12, minimum=0,
        doc="Largest record batch; default of a topic's max.message.bytes.",
    ),
    ConfigDef(
        name="compression.type", kind="string", default="producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="producer: batches are stored as they came; else those of another codec are "
            "compressed anew. "
        "Default of a topic's compression.type.",
    ),
    ConfigDef(
        name="log.message.timestamp.type", kind="string", default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Whose clock stamps records; default of a topic's message.timestamp.type.",
    ),
    ConfigDef(
        name="log.message.timestamp.before.max.ms", kind="long", default=LONG_MAX, minimum=0,
        doc="How far in the past a record's CreateTime may lie; default of a topic's "
        "message.timestamp.before.max.ms.",
    ),
    ConfigDef(
        name="log.message.timestamp.after.max.ms", kind="long", default=_HOUR, minimum=0,
        doc="How far in the future a record's CreateTime may lie; default of a topic's "
        "message.timestamp.after.max.ms.",
    ),
)

_LOG = (
    ConfigDef(
        name="log.retention.ms", kind="long", default=None, minimum=-1,
        doc="Age at which segments are deleted, -1: never; default of a topic's retention.ms. "
        "Null: log.retention.minutes, then log.retention.hours.",
    ),
    ConfigDef(
        name="log.retention.minutes", kind="int", default=None, minimum=-1,
        doc="log.retention.ms in minutes.",
    ),
    ConfigDef(
        name="log.retention.hours", kind="int", default=168, minimum=-1,
        doc="log.retention.ms in hours.",
    ),
    ConfigDef(
        name="log.retention.bytes", kind="long", default=-1,
        doc="Size of a partition beyond which old segments are deleted, -1: unlimited; "
            "default of a "
        "topic's retention.bytes.",
    ),
    ConfigDef(
        name="log.retention.check.interval.ms", kind="long", default=300_000, minimum=1,
        doc="How often segments are looked for that retention lets go.",
    ),
    ConfigDef(
        name="log.segment.bytes", kind="int", default=1024 * _MEBI, minimum=_MEBI,
        doc="Size of a segment file; default of a topic's segment.bytes.",
    ),
    ConfigDef(
        name="log.roll.ms", kind="long", default=None, minimum=1,
        doc="Age at which a new segment is begun; default of a topic's segment.ms. Null: "
            "log.roll.hours.",
    ),
    ConfigDef(name="log.roll.hours", kind="int", default=168, minimum=1, doc="log.roll.ms in hours."),
    ConfigDef(
        name="log.index.interval.bytes", kind="int", default=4_096, minimum=0,
        doc="Bytes between two entries of the sparse index; default of a topic's "
            "index.interval.bytes.",
    ),
    ConfigDef(
        name="log.cleanup.policy", kind="list", default=("delete",), choices=("delete", "compact"),
        doc="What becomes of old records; default of a topic's cleanup.policy.",
    ),
)

_CLEANER = (
    ConfigDef(
        name="log.cleaner.backoff.ms", kind="long", default=15_000, minimum=0,
        doc="How often partitions are looked for that are due for compaction.",
    ),
    ConfigDef(
        name="log.cleaner.min.cleanable.ratio", kind="double", default=0.5, minimum=0, maximum=1,
        doc="Part of a log that must be uncompacted before it is compacted; default of a topic's "
        "min.cleanable.dirty.ratio.",
    ),
    ConfigDef(
        name="log.cleaner.delete.retention.ms", kind="long", default=_DAY, minimum=0,
        doc="How long tombstones are kept; default of a topic's delete.retention.ms.",
    ),
    ConfigDef(
        name="log.cleaner.min.compaction.lag.ms", kind="long", default=0, minimum=0,
        doc="Age before which a record is not compacted; default of a topic's "
            "min.compaction.lag.ms.",
    ),
    ConfigDef(
        name="log.cleaner.max.compaction.lag.ms", kind="long", default=LONG_MAX, minimum=1,
        doc="Age at which a record makes its log due for compaction; default of a topic's "
        "max.compaction.lag.ms.",
    ),
)

_PRODUCE_AND_FETCH = (
    ConfigDef(
        name="producer.id.expiration.ms", kind="int", default=_DAY, minimum=1,
        doc="How long the sequence numbers of an idle idempotent producer are remembered.",
    ),
    ConfigDef(
        name="fetch.max.bytes", kind="int", default=55 * _MEBI, minimum=1_024,
        doc="Most that one Fetch is answered with, whatever it asks for.",
    ),
    ConfigDef(
        name="max.incremental.fetch.session.cache.slots", kind="int", default=1_000, minimum=0,
        doc="Fetch sessions at a time; beyond it a client gets full fetches.",
    ),
)

_OURS = (
    ConfigDef(
        name="storage", kind="string", default="local", choices=("local", "memory"), ours=True,
        doc="Where logs are kept: files below log.dir, or memory (gone when the server ends).",
    ),
    ConfigDef(
        name="durability", kind="string", default="os", choices=("os", "fsync"), ours=True,
        doc="What an acknowledged append has reached: os survives a killed process, fsync a "
            "power loss.",
    ),
    ConfigDef(
        name="insecure", kind="boolean", default=False, ours=True,
        doc="Whether an address that other machines can reach may be listened on; there is no "
        "authentication yet.",
    ),
    ConfigDef(
        name="http.listen", kind="string", default=None, check=parse_address, ours=True,
        doc="Address of the HTTP port with /metrics, /health and /groups; null: none.",
    ),
    ConfigDef(
        name="logging.format", kind="string", default="text", choices=("text", "json"), ours=True,
        doc="Form of the lines on standard error.",
    ),
    ConfigDef(
        name="logging.level", kind="string", default="info", ours=True,
        choices=("debug", "info", "warning", "error"),
        doc="Least severe line that is written.",
    ),
)

# fmt: on

TABLE: Final[dict[str, ConfigDef]] = {
    definition.name: definition
    for section in (
        _SERVER,
        _CONNECTIONS,
        _GROUPS,
        _OFFSETS,
        _TOPICS,
        _LOG,
        _CLEANER,
        _PRODUCE_AND_FETCH,
        _OURS,
    )
    for definition in section
}
