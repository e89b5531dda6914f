"""Table of all settings of a server: name, type, default, range and documentation.

A Kafka name that is missing here does nothing in Kohort, and setting it is refused rather than
ignored. Where a default is not Kafka's, the text says so.
"""

import os
from collections.abc import Callable
from typing import Any, Final

from kohort.security import KafkaPrincipal, MappingRules, SecurityProtocol
from kohort.security.authorizer import super_users
from kohort.security.jaas import LOGIN_MODULES
from kohort.server.addresses import java_host, parse_http, parse_listener
from kohort.server.config.definition import INT_MAX, LONG_MAX, ConfigDef, Kind, Value
from kohort.server.config.storage import parse_storage

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_MEBI = 1024 * 1024


def connections_of_ip(text: str) -> tuple[str, int]:
    """The address and the number in `ADDRESS:NUMBER`. Raises ValueError."""
    address, _, number = text.rpartition(":")
    if not address or not (number.isascii() and number.isdigit()):
        raise ValueError(f"{text!r} is not ADDRESS:NUMBER")
    return java_host(address.strip("[]")), int(number)


MAX_WORKERS: Final = 64
AUTO: Final = "auto"


def number_of_workers(text: str) -> int:
    """The number in `workers`; "auto" is that of the processors. Raises ValueError."""
    if text == AUTO:
        return min(len(os.sched_getaffinity(0)), MAX_WORKERS)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_WORKERS):
        raise ValueError(f"{text!r} is neither {AUTO} nor a number from 1 to {MAX_WORKERS}")
    return int(text)


def _identification(text: str) -> None:
    if text.lower() not in ("https", ""):
        raise ValueError(f"{text!r} is not https, or empty")


_HOUR = 3_600_000
_DAY = 24 * _HOUR


def _of(kind: Kind) -> Callable[..., ConfigDef]:
    """A constructor of rows of one type, of a name, a default and further fields by keyword."""

    def row(name: str, default: Value, **further: Any) -> ConfigDef:
        return ConfigDef(name=name, kind=kind, default=default, **further)

    return row


_boolean, _int, _long, _double = _of("boolean"), _of("int"), _of("long"), _of("double")
_string, _list, _password = _of("string"), _of("list"), _of("password")

# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
_SERVER = (
    _list("listeners", ("127.0.0.1:9092",), check=parse_listener,
        doc="Addresses to listen on, as HOST:PORT or NAME://HOST:PORT. The default name is "
        "PLAINTEXT. Port 0: any free port. Kafka's default is every interface.",
    ),
    _list("advertised.listeners", None, check=parse_listener,
        doc="Addresses that clients connect to, one per listener name. Other listeners advertise "
        "their own address. Port 0: the port listened on.",
    ),
    _list("listener.security.protocol.map",
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        doc="Security protocol of each listener, as NAME:PROTOCOL.",
    ),
    _string("inter.broker.listener.name", None,
        doc="Name of the listener for connections between the nodes of a cluster. Null: the value "
        "of security.inter.broker.protocol.",
    ),
    _string("security.inter.broker.protocol", "PLAINTEXT", choices=tuple(SecurityProtocol),
        doc="Name of the listener for connections between the nodes of a cluster. Cannot be set "
        "together with inter.broker.listener.name.",
    ),
    _int("node.id", 0, minimum=0, doc="Id of this broker in responses. Kafka has no default."),
    _int("broker.id", None, minimum=0, doc="Old name of node.id."),
    _string("broker.rack", None,
        doc="Rack of this broker, for rack-aware assignors of clients.",
    ),
    _string("log.dir", "data",
        doc="Directory of all topics, groups and metadata, used by one server at a time. Kafka's "
        "default is /tmp/kafka-logs.",
    ),
    _int("num.recovery.threads.per.data.dir", 2, minimum=1,
        doc="Number of threads that recover logs at startup after a crash of the machine.",
    ),
)

_CONNECTIONS = (
    _int("max.connections", INT_MAX, minimum=1, per_listener=True,
        doc="Maximum number of open connections. Further connections wait until one is closed.",
    ),
    _int("max.connections.per.ip", INT_MAX, minimum=1,
        doc="Maximum number of open connections from one IP address. Further connections are "
        "closed.",
    ),
    _list("max.connections.per.ip.overrides", (), check=connections_of_ip,
        doc="Overrides of max.connections.per.ip, as ADDRESS:NUMBER.",
    ),
    _int("max.connection.creation.rate", INT_MAX, minimum=1, per_listener=True,
        doc="Maximum number of new connections per second; further connections wait. Bursts of "
        "ten seconds' worth are allowed.",
    ),
    _long("connections.max.idle.ms", 600_000,
        doc="Time after which an idle connection without a pending request is closed.",
    ),
    _int("socket.request.max.bytes", 100 * _MEBI, minimum=1,
        doc="Maximum size of a request. Larger requests close the connection.",
    ),
    _int("quota.window.num", 11, minimum=1,
        doc="Number of samples that are kept for client quotas.",
    ),
    _int("quota.window.size.seconds", 1, minimum=1,
        doc="Time span of each sample of client quotas.",
    ),
    _long("queued.max.request.bytes", -1,
        doc="Maximum total size of requests in progress, over all connections. Beyond it, no "
        "further requests are read. -1: unlimited.",
    ),
)

_TLS = (
    _string("ssl.keystore.type", "PEM", choices=("PEM",), per_listener=True,
        doc="Format of the key store. Kafka's default is JKS.",
    ),
    _string("ssl.keystore.location", None, per_listener=True,
        doc="PEM file of the server's private key, encrypted or not, and its certificate chain.",
    ),
    _password("ssl.keystore.key", None, per_listener=True,
        doc="Private key as PEM text, instead of ssl.keystore.location.",
    ),
    _password("ssl.keystore.certificate.chain", None, per_listener=True,
        doc="Certificate chain as PEM text, for ssl.keystore.key.",
    ),
    _password("ssl.key.password", None, per_listener=True,
        doc="Password of an encrypted private key.",
    ),
    _string("ssl.truststore.type", "PEM", choices=("PEM",), per_listener=True,
        doc="Format of the trust store. Kafka's default is JKS.",
    ),
    _string("ssl.truststore.location", None, per_listener=True,
        doc="PEM file of the certificate authorities that sign client certificates.",
    ),
    _password("ssl.truststore.certificates", None, per_listener=True,
        doc="Certificate authorities as PEM text, instead of ssl.truststore.location.",
    ),
    _string("ssl.client.auth", "none", choices=("none", "requested", "required"),
        per_listener=True,
        doc="Whether clients must authenticate by certificate. On a SASL listener, only the "
        "setting with the listener's prefix applies, and the principal is the SASL user.",
    ),
    _string("ssl.principal.mapping.rules", "DEFAULT", check=MappingRules.parse, per_listener=True,
        doc="Rules that map the distinguished name of a client certificate to a principal, as "
        "RULE:regex/replacement/[LU], separated by commas. DEFAULT: the distinguished name.",
    ),
    _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), choices=("TLSv1.2", "TLSv1.3"),
        per_listener=True, doc="Enabled versions of TLS.",
    ),
    _list("ssl.cipher.suites", (), per_listener=True,
        doc="Cipher suites of TLS 1.2, by OpenSSL or IANA name. Empty: suites with forward "
        "secrecy and authenticated encryption. Kafka's default is that of Java.",
    ),
    _boolean("ssl.allow.dn.changes", False, per_listener=True,
        doc="Whether a reloaded certificate may have another distinguished name.",
    ),
    _boolean("ssl.allow.san.changes", False, per_listener=True,
        doc="Whether a reloaded certificate may lack alternative names of the previous one.",
    ),
    _string("ssl.endpoint.identification.algorithm", "https", check=_identification,
        per_listener=True,
        doc="https: the nodes of a cluster verify the host name in each other's certificates. "
        "Empty: no verification of host names.",
    ),
    _int("ssl.handshake.timeout.ms", 10_000, minimum=1, ours=True, per_listener=True,
        doc="Maximum duration of a TLS handshake.",
    ),
)

_AUTHORIZATION = (
    _string("authorizer.class.name", None, choices=(STANDARD_AUTHORIZER,),
        doc="Authorizer, which checks access control lists (ACLs). Null: all operations are "
        "allowed.",
    ),
    _string("super.users", "", check=super_users,
        doc="Principals that are allowed all operations, separated by semicolons: "
        "User:admin;User:ops.",
    ),
    _string("audit.log.file", None, ours=True,
        doc="File to which denied operations are appended as JSON lines. Null: no audit log. "
        "SIGHUP reopens the file.",
    ),
    _string("audit.log.decisions", "denied", choices=("denied", "all"), ours=True,
        doc="Operations in the audit log: denied ones only, or all.",
    ),
    _boolean("allow.everyone.if.no.acl.found", False,
        doc="Whether all clients may access resources without ACLs.",
    ),
)

_SASL = (
    _list("sasl.enabled.mechanisms", ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), per_listener=True,
        doc="Enabled SASL mechanisms. Kafka's default is GSSAPI.",
    ),
    _password("sasl.jaas.config", None, per_listener=True,
        doc="Users of PLAIN, with the prefix of a listener and plain: PlainLoginModule required "
        'user_NAME="PASSWORD" …;, with the full class name of the module. username and '
        "password are the credentials of this node for connections to other nodes; for SCRAM, "
        "in ScramLoginModule.",
    ),
    _string("sasl.mechanism.inter.broker.protocol", None, choices=tuple(LOGIN_MODULES),
        doc="SASL mechanism for connections between the nodes of a cluster. Kafka's default is "
        "GSSAPI.",
    ),
    _long("connections.max.reauth.ms", 0, per_listener=True,
        doc="Maximum duration of a SASL session; clients must re-authenticate before it ends "
        "(KIP-368). 0: limited only by the lifetime of bearer tokens.",
    ),
    _int("connection.failed.authentication.delay.ms", 100, minimum=0,
        doc="Delay of the response to a failed authentication.",
    ),
    _int("sasl.server.max.receive.size", 524_288, minimum=1,
        doc="Maximum request size before authentication. Larger requests close the connection.",
    ),
    _int("sasl.authentication.timeout.ms", 30_000, minimum=1, ours=True,
        doc="Maximum duration of a SASL authentication.",
    ),
    _int("max.failed.authentications.per.ip", 100, minimum=1, ours=True,
        doc="Maximum number of failed SASL authentications per minute from one IP address (IPv6: "
        "/64 prefix). Beyond it, authentication waits for the next minute.",
    ),
    _string("sasl.oauthbearer.jwks.endpoint.url", None, per_listener=True,
        doc="URL (https or file) of the JWKS with the keys that verify bearer tokens.",
    ),
    _list("org.apache.kafka.sasl.oauthbearer.allowed.urls", (),
        doc="Allowed values of sasl.oauthbearer.jwks.endpoint.url. In Kafka, a system property.",
    ),
    _long("sasl.oauthbearer.jwks.endpoint.refresh.ms", _HOUR, minimum=1_000, per_listener=True,
        doc="Refresh interval of the JWKS.",
    ),
    _list("sasl.oauthbearer.expected.audience", (), per_listener=True,
        doc="Accepted audiences of tokens. Empty: any.",
    ),
    _string("sasl.oauthbearer.expected.issuer", None, per_listener=True,
        doc="Required issuer of tokens. Null: any.",
    ),
    _int("sasl.oauthbearer.clock.skew.seconds", 30, minimum=0, per_listener=True,
        doc="Allowed difference between the clocks of the server and the token issuer.",
    ),
    _string("sasl.oauthbearer.sub.claim.name", "sub", per_listener=True,
        doc="Claim of a token that contains the principal.",
    ),
    _boolean("sasl.oauthbearer.unsecured", False, ours=True, per_listener=True,
        doc="Whether unsigned tokens are accepted if sasl.oauthbearer.jwks.endpoint.url is not "
        "set. Insecure: for development only.",
    ),
)

_GROUPS = (
    _int("group.min.session.timeout.ms", 6_000,
        doc="Minimum session timeout of classic members. Lower values are rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    _int("group.max.session.timeout.ms", 1_800_000,
        doc="Maximum session timeout of classic members. Higher values are rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    _int("group.initial.rebalance.delay.ms", 3_000,
        doc="Time that an empty group waits for more members before its first rebalance "
        "completes. 0 with --dev.",
    ),
    _long("group.pending.max.bytes", 64 * _MEBI, minimum=_MEBI, ours=True,
        doc="Maximum memory of member ids that were returned with MEMBER_ID_REQUIRED and have not "
        "joined yet. Beyond it, the oldest are removed. One half is divided evenly among the "
        "partitions of __consumer_offsets; the other half is shared.",
    ),
    _int("group.max.size", INT_MAX, minimum=1,
        doc="Maximum number of members of a classic group. Further members are rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
)

_CONSUMER_GROUPS = (
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer"),
        choices=("classic", "consumer"),
        doc="Enabled group protocols; classic is always enabled. Kafka also supports streams.",
    ),
    _int("group.consumer.session.timeout.ms", 45_000, minimum=1,
        doc="Session timeout of consumer groups (KIP-848); default of a group's "
        "consumer.session.timeout.ms.",
    ),
    _int("group.consumer.min.session.timeout.ms", 45_000, minimum=1,
        doc="Minimum consumer.session.timeout.ms of a group.",
    ),
    _int("group.consumer.max.session.timeout.ms", 60_000, minimum=1,
        doc="Maximum consumer.session.timeout.ms of a group.",
    ),
    _int("group.consumer.heartbeat.interval.ms", 5_000, minimum=1,
        doc="Heartbeat interval of consumer groups; default of a group's "
        "consumer.heartbeat.interval.ms.",
    ),
    _int("group.consumer.min.heartbeat.interval.ms", 5_000, minimum=1,
        doc="Minimum consumer.heartbeat.interval.ms of a group.",
    ),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, minimum=1,
        doc="Maximum consumer.heartbeat.interval.ms of a group.",
    ),
    _int("group.consumer.assignment.interval.ms", 1_000, minimum=0,
        doc="Minimum time between two target assignments of a consumer group; default of a "
        "group's consumer.assignment.interval.ms. 0 with --dev.",
    ),
    _int("group.consumer.min.assignment.interval.ms", 0, minimum=0,
        doc="Minimum consumer.assignment.interval.ms of a group.",
    ),
    _int("group.consumer.max.assignment.interval.ms", 15_000, minimum=0,
        doc="Maximum consumer.assignment.interval.ms of a group.",
    ),
    _int("group.consumer.max.size", INT_MAX, minimum=1,
        doc="Maximum number of members of a consumer group. Further members are rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
    _list("group.consumer.assignors", ("uniform", "range"), choices=("uniform", "range"),
        doc="Server-side assignors of consumer groups. The first one is the default.",
    ),
    _string("group.consumer.migration.policy", "bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        doc="Allowed conversions of non-empty groups. upgrade: to a consumer group, when a member "
        "joins by the consumer protocol; downgrade: to a classic group, when the last such "
        "member leaves.",
    ),
)

_OFFSETS = (
    _int("offset.metadata.max.bytes", 4_096,
        doc="Maximum length of the metadata of a commit, in characters. Longer metadata is "
        "rejected with OFFSET_METADATA_TOO_LARGE.",
    ),
    _int("offsets.retention.minutes", 10_080, minimum=1,
        doc="Retention time of committed offsets, from the time when the group became empty, or "
        "from the commit (KIP-211).",
    ),
    _long("offsets.retention.check.interval.ms", 600_000, minimum=1,
        doc="Interval of the check for expired offsets and groups.",
    ),
    _int("offsets.topic.num.partitions", 50, minimum=1,
        doc="Number of partitions of __consumer_offsets. Applies when the topic is created, at "
        "the first start.",
    ),
    _int("offsets.topic.segment.bytes", 4 * _MEBI, minimum=_MEBI,
        doc="Segment size of __consumer_offsets. Applies when the topic is created. The active "
        "segment is not compacted, so larger segments make startup slower.",
    ),
)

_TRANSACTIONS = (
    _int("transaction.max.timeout.ms", 900_000, minimum=1,
        doc="Maximum transaction.timeout.ms of a producer. Higher values are rejected with "
        "INVALID_TRANSACTION_TIMEOUT.",
    ),
    _int("transactional.id.expiration.ms", 7 * _DAY, minimum=1,
        doc="Time without a transaction after which a transactional id expires.",
    ),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", _HOUR, minimum=1,
        doc="Interval of the check for expired transactional ids.",
    ),
    _int("transaction.state.log.num.partitions", 50, minimum=1,
        doc="Number of partitions of __transaction_state. Applies when the topic is created, at "
        "the first start.",
    ),
    _int("transaction.state.log.segment.bytes", 4 * _MEBI, minimum=_MEBI,
        doc="Segment size of __transaction_state. Applies when the topic is created. The active "
        "segment is not compacted, so larger segments make startup slower.",
    ),
)

_TOPICS = (
    _boolean("auto.create.topics.enable", True,
        doc="Whether a Metadata request for an unknown topic creates it.",
    ),
    _int("num.partitions", 1, minimum=1,
        doc="Default number of partitions of new topics.",
    ),
    _boolean("delete.topic.enable", True,
        doc="Whether topics can be deleted. If false, DeleteTopics is rejected with "
        "TOPIC_DELETION_DISABLED.",
    ),
    _int("message.max.bytes", _MEBI + 12, minimum=0,
        doc="Maximum size of a record batch; default of a topic's max.message.bytes.",
    ),
    _string("compression.type", "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="Compression codec of stored batches; default of a topic's compression.type. "
        "producer: as produced. Batches with another codec are recompressed.",
    ),
    _string("log.message.timestamp.type", "CreateTime", choices=("CreateTime", "LogAppendTime"),
        doc="Timestamp of records: set by the producer (CreateTime) or by the server "
        "(LogAppendTime); default of a topic's message.timestamp.type.",
    ),
    _long("log.message.timestamp.before.max.ms", LONG_MAX, minimum=0,
        doc="Maximum age of a record's CreateTime; default of a topic's "
        "message.timestamp.before.max.ms.",
    ),
    _long("log.message.timestamp.after.max.ms", _HOUR, minimum=0,
        doc="Maximum time by which a record's CreateTime may be in the future; default of a "
        "topic's message.timestamp.after.max.ms.",
    ),
)

_LOG = (
    _long("log.retention.ms", None, minimum=-1,
        doc="Retention time of segments; default of a topic's retention.ms. -1: unlimited. Null: "
        "log.retention.minutes, then log.retention.hours.",
    ),
    _int("log.retention.minutes", None, minimum=-1, doc="log.retention.ms in minutes."),
    _int("log.retention.hours", 168, minimum=-1, doc="log.retention.ms in hours."),
    _long("log.retention.bytes", -1,
        doc="Maximum size of a partition, beyond which the oldest segments are deleted; default "
        "of a topic's retention.bytes. -1: unlimited.",
    ),
    _long("log.retention.check.interval.ms", 300_000, minimum=1,
        doc="Interval of the check for segments to delete.",
    ),
    _int("log.segment.bytes", 1024 * _MEBI, minimum=_MEBI,
        doc="Maximum size of a segment; default of a topic's segment.bytes.",
    ),
    _long("log.roll.ms", None, minimum=1,
        doc="Maximum age of the active segment; default of a topic's segment.ms. Null: "
        "log.roll.hours.",
    ),
    _int("log.roll.hours", 168, minimum=1, doc="log.roll.ms in hours."),
    _int("log.index.interval.bytes", 4_096, minimum=0,
        doc="Bytes between two entries of the offset index; default of a topic's "
        "index.interval.bytes.",
    ),
    _list("log.cleanup.policy", ("delete",), choices=("delete", "compact"),
        doc="Cleanup policy of segments; default of a topic's cleanup.policy.",
    ),
)

_CLEANER = (
    _long("log.cleaner.backoff.ms", 15_000, minimum=0,
        doc="Interval of the check for partitions to compact.",
    ),
    _double("log.cleaner.min.cleanable.ratio", 0.5, minimum=0, maximum=1,
        doc="Minimum ratio of uncompacted to total bytes before a log is compacted; default of a "
        "topic's min.cleanable.dirty.ratio.",
    ),
    _long("log.cleaner.delete.retention.ms", _DAY, minimum=0,
        doc="Retention time of tombstones; default of a topic's delete.retention.ms.",
    ),
    _long("log.cleaner.min.compaction.lag.ms", 0, minimum=0,
        doc="Minimum age of a record before it is compacted; default of a topic's "
        "min.compaction.lag.ms.",
    ),
    _long("log.cleaner.max.compaction.lag.ms", LONG_MAX, minimum=1,
        doc="Maximum age of an uncompacted record; default of a topic's max.compaction.lag.ms.",
    ),
)

_PRODUCE_AND_FETCH = (
    _int("producer.id.expiration.ms", _DAY, minimum=1,
        doc="Time after which the state of an idle idempotent producer expires.",
    ),
    _int("fetch.max.bytes", 55 * _MEBI, minimum=1_024,
        doc="Maximum size of the records in a Fetch response.",
    ),
    _int("max.incremental.fetch.session.cache.slots", 1_000, minimum=0,
        doc="Maximum number of incremental fetch sessions. Further clients use full fetches.",
    ),
)

_OURS = (
    _string("workers", "1", check=number_of_workers, ours=True,
        doc="Number of worker processes, or auto: one per processor. Each worker is a broker, "
        "with consecutive node ids and ports.",
    ),
    _string("storage", "local", check=parse_storage, ours=True,
        doc="Storage of all data. local: files in log.dir; memory: lost when the server stops; "
        "postgresql://USER@HOST:PORT/DATABASE: tables (needs the extra kohort[postgres]). "
        "Servers with the same tables and different node.id are the nodes of a cluster: they "
        "share the partitions, take over those of a failed node, and connect to each other by "
        "inter.broker.listener.name.",
    ),
    _boolean("memory.restart.visible", False, ours=True,
        doc="Whether clients can detect a restart with storage=memory. If true, leader epochs "
        "begin at the start time in seconds, and members of an unknown consumer group get "
        "UNKNOWN_MEMBER_ID and rejoin. If false, they get GROUP_ID_NOT_FOUND as in Kafka, "
        "which is fatal in librdkafka. true with --memory.",
    ),
    _boolean("cluster.enabled", False, ours=True,
        doc="No effect: a server on PostgreSQL is always a cluster node. true is refused with "
        "another storage.",
    ),
    _int("cluster.rebalance.delay.ms", 30_000, ours=True,
        doc="Delay between the start of a node and the reassignment of partitions to it. "
        "Partitions without a leader are assigned immediately.",
    ),
    _int("cluster.drain.timeout.ms", 5_000, ours=True,
        doc="Maximum time that a stopping node hands its partitions over to other nodes. "
        "Partitions left after that are taken over as after a crash. 0: no drain.",
    ),
    _string("durability", "os", choices=("os", "fsync"), ours=True,
        doc="Durability of acknowledged appends. os: they survive a process crash; fsync: they "
        "survive a power loss. On PostgreSQL they are committed, with the durability of the "
        "database.",
    ),
    _long("queued.max.response.bytes", 256 * _MEBI, ours=True,
        doc="Maximum total size of responses that clients have not read, over all connections. "
        "Fetch responses shrink as it is approached. Beyond it, the connection that has not "
        "read for the longest time is closed. -1: unlimited.",
    ),
    _long("produce.inflated.max.bytes", 256 * _MEBI, minimum=1, ours=True,
        doc="Maximum total size of the batches of a Produce request after decompression. Batches "
        "beyond it are rejected with MESSAGE_TOO_LARGE.",
    ),
    _long("stray.retention.ms", 7 * 86_400_000, minimum=-1, ours=True,
        doc="Retention time of partition directories without a topic, which are renamed to "
        "…-stray. -1: unlimited.",
    ),
    _string("local.socket", None, ours=True,
        doc="Path of a Unix socket for local programs of the server's user, who are allowed all "
        "operations. Clients connect to unix:PATH. Null: none.",
    ),
    _boolean("insecure", False, ours=True,
        doc="Whether listeners without TLS or authentication may be reachable from other machines.",
    ),
    _string("http.listen", None, check=parse_http, ours=True,
        doc="Address of the HTTP port with /metrics, /health, /ready and /groups, as HOST:PORT or "
        "https://HOST:PORT. Null: none. Its TLS settings are those of a listener named HTTP.",
    ),
    _password("http.token", None, ours=True,
        doc="Bearer token that requests to the HTTP port must have, except for the status in "
        "/health and /ready. Null: none.",
    ),
    _string("http.principal", "User:ANONYMOUS", check=KafkaPrincipal.parse, ours=True,
        doc="Principal of requests to the HTTP port. With an authorizer, the port shows only "
        "groups and topics that this principal may describe.",
    ),
    _string("logging.format", "text", choices=("text", "json"), ours=True,
        doc="Format of log lines on standard error.",
    ),
    _string("logging.level", "info", ours=True, choices=("debug", "info", "warning", "error"),
        doc="Lowest level that is logged.",
    ),
)

# fmt: on

GROUP_BOUNDED: Final = (
    "session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms",
)  # fmt: skip
"""Configs of consumer groups: the default is `group.consumer.NAME`, the bounds are
`group.consumer.min.NAME` and `group.consumer.max.NAME`.
"""

RELOADABLE: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""Settings that clients can change for one listener, with its prefix, and for one broker."""

DYNAMIC: Final = frozenset(
    {
        "compression.type",
        "group.consumer.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.index.interval.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "producer.id.expiration.ms",
    }
)
"""Settings that clients can change while the server runs (KIP-226)."""

TABLE: Final[dict[str, ConfigDef]] = {
    definition.name: definition
    for section in (
        _SERVER,
        _CONNECTIONS,
        _TLS,
        _AUTHORIZATION,
        _SASL,
        _GROUPS,
        _CONSUMER_GROUPS,
        _OFFSETS,
        _TRANSACTIONS,
        _TOPICS,
        _LOG,
        _CLEANER,
        _PRODUCE_AND_FETCH,
        _OURS,
    )
    for definition in section
}
