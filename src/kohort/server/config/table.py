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
        doc="Addresses to listen on, as HOST:PORT or NAME://HOST:PORT; without a name it is "
        "PLAINTEXT. Port 0 takes a free port. Kafka's default is every interface.",
    ),
    _list("advertised.listeners", None, check=parse_listener,
        doc="Addresses that clients connect to, by the names of listeners. A listener that is not "
        "named has its own address. Port 0: the port listened on.",
    ),
    _list("listener.security.protocol.map",
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        doc="Security protocol of each listener, as NAME:PROTOCOL.",
    ),
    _string("inter.broker.listener.name", None,
        doc="Listener by which the nodes of a cluster connect to each other. Null: the one that "
        "is named as security.inter.broker.protocol.",
    ),
    _string("security.inter.broker.protocol", "PLAINTEXT", choices=tuple(SecurityProtocol),
        doc="Name of the listener by which the nodes of a cluster connect to each other; not "
        "together with inter.broker.listener.name.",
    ),
    _int("node.id", 0, minimum=0, doc="Id of this broker in responses. Kafka has no default."),
    _int("broker.id", None, minimum=0, doc="Old name of node.id."),
    _string("broker.rack", None,
        doc="Rack of this broker in responses, for assignors of clients that prefer replicas in "
        "their own rack.",
    ),
    _string("log.dir", "data",
        doc="Directory of all topics, groups and metadata, used by one server at a time. Kafka's "
        "default is /tmp/kafka-logs.",
    ),
    _int("num.recovery.threads.per.data.dir", 2, minimum=1,
        doc="Number of logs that are checked at once at a start after a crash of the machine.",
    ),
)

_CONNECTIONS = (
    _int("max.connections", INT_MAX, minimum=1, per_listener=True,
        doc="Largest number of open connections; a further one waits until another one ends.",
    ),
    _int("max.connections.per.ip", INT_MAX, minimum=1,
        doc="Largest number of open connections from one address; a further one is closed at "
        "once.",
    ),
    _list("max.connections.per.ip.overrides", (), check=connections_of_ip,
        doc="max.connections.per.ip of single addresses, as ADDRESS:NUMBER.",
    ),
    _int("max.connection.creation.rate", INT_MAX, minimum=1, per_listener=True,
        doc="Largest number of new connections per second; further ones wait. Ten seconds worth "
        "may come at once.",
    ),
    _long("connections.max.idle.ms", 600_000,
        doc="Idle time after which a connection that waits for no response is closed.",
    ),
    _int("socket.request.max.bytes", 100 * _MEBI, minimum=1,
        doc="Largest request; a larger one closes its connection.",
    ),
    _int("quota.window.num", 11, minimum=1,
        doc="Number of windows over which the use of a client quota is measured.",
    ),
    _int("quota.window.size.seconds", 1, minimum=1, doc="Length of each window of client quotas."),
    _long("queued.max.request.bytes", -1,
        doc="Total bytes of requests that may be in progress, over all connections, before "
        "reading pauses; -1: unlimited.",
    ),
)

_TLS = (
    _string("ssl.keystore.type", "PEM", choices=("PEM",), per_listener=True,
        doc="Format of the key store. Kafka has JKS, which is its default, too.",
    ),
    _string("ssl.keystore.location", None, per_listener=True,
        doc="PEM file of the server's private key, encrypted or not, and its certificate chain.",
    ),
    _password("ssl.keystore.key", None, per_listener=True,
        doc="The private key as PEM text, in place of ssl.keystore.location.",
    ),
    _password("ssl.keystore.certificate.chain", None, per_listener=True,
        doc="The certificate chain as PEM text, with ssl.keystore.key.",
    ),
    _password("ssl.key.password", None, per_listener=True,
        doc="Password of an encrypted private key.",
    ),
    _string("ssl.truststore.type", "PEM", choices=("PEM",), per_listener=True,
        doc="Format of the trust store. Kafka has JKS, which is its default, too.",
    ),
    _string("ssl.truststore.location", None, per_listener=True,
        doc="PEM file of the authorities whose client certificates are accepted.",
    ),
    _password("ssl.truststore.certificates", None, per_listener=True,
        doc="These authorities as PEM text, in place of ssl.truststore.location.",
    ),
    _string("ssl.client.auth", "none", choices=("none", "requested", "required"),
        per_listener=True,
        doc="Whether clients show a certificate. On a SASL listener only the setting with the "
        "listener's prefix counts, and the login names the principal.",
    ),
    _string("ssl.principal.mapping.rules", "DEFAULT", check=MappingRules.parse, per_listener=True,
        doc="Rules that turn the name in a client's certificate into a principal, as "
        "RULE:regex/replacement/[LU], separated by commas; DEFAULT is the whole name.",
    ),
    _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), choices=("TLSv1.2", "TLSv1.3"),
        per_listener=True, doc="Versions of TLS.",
    ),
    _list("ssl.cipher.suites", (), per_listener=True,
        doc="Cipher suites of TLS 1.2, by OpenSSL's or IANA's names. Empty: those with forward "
        "secrecy and authenticated encryption. Kafka's default is Java's, which has more.",
    ),
    _boolean("ssl.allow.dn.changes", False, per_listener=True,
        doc="Whether a certificate that replaces another may have another name.",
    ),
    _boolean("ssl.allow.san.changes", False, per_listener=True,
        doc="Whether a certificate that replaces another may lack some of its alternative names.",
    ),
    _string("ssl.endpoint.identification.algorithm", "https", check=_identification,
        per_listener=True,
        doc="https: a node of a cluster connects to others only if their certificates name the "
        "host. Empty: names do not matter.",
    ),
    _int("ssl.handshake.timeout.ms", 10_000, minimum=1, ours=True, per_listener=True,
        doc="Time that a client has for the TLS handshake.",
    ),
)

_AUTHORIZATION = (
    _string("authorizer.class.name", None, choices=(STANDARD_AUTHORIZER,),
        doc="The authorizer, which allows clients what access control lists (ACLs) say; null: all "
        "clients may do everything.",
    ),
    _string("super.users", "", check=super_users,
        doc="Principals that may do everything, separated by semicolons: User:admin;User:ops.",
    ),
    _string("audit.log.file", None, ours=True,
        doc="File that operations which ACLs deny are appended to, as JSON lines; null: none. "
        "SIGHUP opens it again.",
    ),
    _string("audit.log.decisions", "denied", choices=("denied", "all"), ours=True,
        doc="Whether operations that are allowed are in the audit log too.",
    ),
    _boolean("allow.everyone.if.no.acl.found", False,
        doc="Whether all clients may use what no ACL is about.",
    ),
)

_SASL = (
    _list("sasl.enabled.mechanisms", ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), per_listener=True,
        doc="SASL mechanisms of listeners with SASL. Kafka's default is GSSAPI.",
    ),
    _password("sasl.jaas.config", None, per_listener=True,
        doc="Users of PLAIN, with the prefix of a listener and plain: PlainLoginModule required "
        'user_NAME="PASSWORD" …;, with the module\'s whole name. username and password are those '
        "by which a node of a cluster authenticates with others; with SCRAM, of ScramLoginModule.",
    ),
    _string("sasl.mechanism.inter.broker.protocol", None, choices=tuple(LOGIN_MODULES),
        doc="SASL mechanism by which a node of a cluster authenticates with others, if their "
        "listener has SASL. Kafka's default is GSSAPI.",
    ),
    _long("connections.max.reauth.ms", 0, per_listener=True,
        doc="Longest SASL session, after which a client has to authenticate again (KIP-368); 0: "
        "sessions end only with their tokens.",
    ),
    _int("connection.failed.authentication.delay.ms", 100, minimum=0,
        doc="Time by which the response to a failed authentication is delayed.",
    ),
    _int("sasl.server.max.receive.size", 524_288, minimum=1,
        doc="Largest request before authentication; a larger one closes its connection.",
    ),
    _int("sasl.authentication.timeout.ms", 30_000, minimum=1, ours=True,
        doc="Time that a new connection has to authenticate by SASL.",
    ),
    _int("max.failed.authentications.per.ip", 100, minimum=1, ours=True,
        doc="Failed SASL authentications from one address (of IPv6: from 64 bits of it) in a "
        "minute beyond which it cannot authenticate until the minute has passed.",
    ),
    _string("sasl.oauthbearer.jwks.endpoint.url", None, per_listener=True,
        doc="https or file URL of the keys (JWKS) that sign bearer tokens.",
    ),
    _list("org.apache.kafka.sasl.oauthbearer.allowed.urls", (),
        doc="URLs that sasl.oauthbearer.jwks.endpoint.url may have. In Kafka, a system property.",
    ),
    _long("sasl.oauthbearer.jwks.endpoint.refresh.ms", _HOUR, minimum=1_000, per_listener=True,
        doc="Interval at which these keys are read again.",
    ),
    _list("sasl.oauthbearer.expected.audience", (), per_listener=True,
        doc="Audiences of which a token must have one; empty: any.",
    ),
    _string("sasl.oauthbearer.expected.issuer", None, per_listener=True,
        doc="Issuer that a token must have; null: any.",
    ),
    _int("sasl.oauthbearer.clock.skew.seconds", 30, minimum=0, per_listener=True,
        doc="How far the clock of a token's issuer may differ.",
    ),
    _string("sasl.oauthbearer.sub.claim.name", "sub", per_listener=True,
        doc="Claim of a token that names the principal.",
    ),
    _boolean("sasl.oauthbearer.unsecured", False, ours=True, per_listener=True,
        doc="Whether tokens without a signature are accepted if there is no "
        "sasl.oauthbearer.jwks.endpoint.url. Anybody can make them: for development only.",
    ),
)

_GROUPS = (
    _int("group.min.session.timeout.ms", 6_000,
        doc="Shortest session timeout of a member; a shorter one is rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    _int("group.max.session.timeout.ms", 1_800_000,
        doc="Longest session timeout of a member; a longer one is rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    _int("group.initial.rebalance.delay.ms", 3_000,
        doc="Time that an empty group waits for more members before its first rebalance "
        "completes; 0 with --dev.",
    ),
    _long("group.pending.max.bytes", 64 * _MEBI, minimum=_MEBI, ours=True,
        doc="Memory of member ids that were handed out and not yet joined with; beyond it, the "
        "oldest are forgotten. Half of it is divided evenly over the partitions of "
        "__consumer_offsets, the other half is for any of them.",
    ),
    _int("group.max.size", INT_MAX, minimum=1,
        doc="Largest number of members in one group; a further JoinGroup is rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
)

_CONSUMER_GROUPS = (
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer"),
        choices=("classic", "consumer"),
        doc="Protocols of groups; classic is always served. Kafka has streams, too.",
    ),
    _int("group.consumer.session.timeout.ms", 45_000, minimum=1,
        doc="Session timeout of members of consumer groups (KIP-848), unless the group has one.",
    ),
    _int("group.consumer.min.session.timeout.ms", 45_000, minimum=1,
        doc="Lower bound of a group's own consumer.session.timeout.ms.",
    ),
    _int("group.consumer.max.session.timeout.ms", 60_000, minimum=1,
        doc="Upper bound of a group's own consumer.session.timeout.ms.",
    ),
    _int("group.consumer.heartbeat.interval.ms", 5_000, minimum=1,
        doc="Heartbeat interval of members of consumer groups, unless the group has one.",
    ),
    _int("group.consumer.min.heartbeat.interval.ms", 5_000, minimum=1,
        doc="Lower bound of a group's own consumer.heartbeat.interval.ms.",
    ),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, minimum=1,
        doc="Upper bound of a group's own consumer.heartbeat.interval.ms.",
    ),
    _int("group.consumer.assignment.interval.ms", 1_000, minimum=0,
        doc="Shortest time between two target assignments of a consumer group, unless the group "
        "has one. 0 with --dev.",
    ),
    _int("group.consumer.min.assignment.interval.ms", 0, minimum=0,
        doc="Lower bound of a group's own consumer.assignment.interval.ms.",
    ),
    _int("group.consumer.max.assignment.interval.ms", 15_000, minimum=0,
        doc="Upper bound of a group's own consumer.assignment.interval.ms.",
    ),
    _int("group.consumer.max.size", INT_MAX, minimum=1,
        doc="Largest number of members in one consumer group; a further one is rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
    _list("group.consumer.assignors", ("uniform", "range"), choices=("uniform", "range"),
        doc="Assignors that members of consumer groups may name. The first one serves groups "
        "whose members name none.",
    ),
    _string("group.consumer.migration.policy", "bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        doc="Whether a group that has members may become a consumer group, when a member of the "
        "consumer protocol joins, or a classic one, when the last one of them leaves.",
    ),
)

_OFFSETS = (
    _int("offset.metadata.max.bytes", 4_096,
        doc="Longest metadata of a commit, in characters; longer metadata is rejected with "
        "OFFSET_METADATA_TOO_LARGE.",
    ),
    _int("offsets.retention.minutes", 10_080, minimum=1,
        doc="Time after which committed offsets expire, counted from when their group became "
        "empty or from their commit (KIP-211).",
    ),
    _long("offsets.retention.check.interval.ms", 600_000, minimum=1,
        doc="Interval of the search for expired offsets and groups.",
    ),
    _int("offsets.topic.num.partitions", 50, minimum=1,
        doc="Number of partitions of __consumer_offsets; read when the topic is created, at the "
        "first start.",
    ),
    _int("offsets.topic.segment.bytes", 4 * _MEBI, minimum=_MEBI,
        doc="Segment size of __consumer_offsets; read when the topic is created. Only closed "
        "segments are compacted, so it bounds what is loaded at a start.",
    ),
)

_TRANSACTIONS = (
    _int("transaction.max.timeout.ms", 900_000, minimum=1,
        doc="Longest transaction.timeout.ms of a producer; a longer one is rejected with "
        "INVALID_TRANSACTION_TIMEOUT.",
    ),
    _int("transactional.id.expiration.ms", 7 * _DAY, minimum=1,
        doc="Time without a transaction after which a transactional id is forgotten.",
    ),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", _HOUR, minimum=1,
        doc="Interval of the search for expired transactional ids.",
    ),
    _int("transaction.state.log.num.partitions", 50, minimum=1,
        doc="Number of partitions of __transaction_state; read when the topic is created, at the "
        "first start.",
    ),
    _int("transaction.state.log.segment.bytes", 4 * _MEBI, minimum=_MEBI,
        doc="Segment size of __transaction_state; read when the topic is created. Only closed "
        "segments are compacted, so it bounds what is loaded at a start.",
    ),
)

_TOPICS = (
    _boolean("auto.create.topics.enable", True,
        doc="Whether a Metadata request for an unknown topic creates it.",
    ),
    _int("num.partitions", 1, minimum=1,
        doc="Number of partitions of a topic that is created automatically, or without a number.",
    ),
    _boolean("delete.topic.enable", True,
        doc="Whether DeleteTopics is served; otherwise it is rejected with "
        "TOPIC_DELETION_DISABLED.",
    ),
    _int("message.max.bytes", _MEBI + 12, minimum=0,
        doc="Largest record batch; default of a topic's max.message.bytes.",
    ),
    _string("compression.type", "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="producer: batches are stored as produced; otherwise batches of another codec are "
        "recompressed. Default of a topic's compression.type.",
    ),
    _string("log.message.timestamp.type", "CreateTime", choices=("CreateTime", "LogAppendTime"),
        doc="Clock that stamps records: the producer's or the server's; default of a topic's "
        "message.timestamp.type.",
    ),
    _long("log.message.timestamp.before.max.ms", LONG_MAX, minimum=0,
        doc="Largest age of a record's CreateTime; default of a topic's "
        "message.timestamp.before.max.ms.",
    ),
    _long("log.message.timestamp.after.max.ms", _HOUR, minimum=0,
        doc="Largest distance of a record's CreateTime into the future; default of a topic's "
        "message.timestamp.after.max.ms.",
    ),
)

_LOG = (
    _long("log.retention.ms", None, minimum=-1,
        doc="Age at which segments are deleted, -1: never; default of a topic's retention.ms. "
        "Null: log.retention.minutes, then log.retention.hours.",
    ),
    _int("log.retention.minutes", None, minimum=-1, doc="log.retention.ms in minutes."),
    _int("log.retention.hours", 168, minimum=-1, doc="log.retention.ms in hours."),
    _long("log.retention.bytes", -1,
        doc="Size of a partition beyond which old segments are deleted, -1: unlimited; default of "
        "a topic's retention.bytes.",
    ),
    _long("log.retention.check.interval.ms", 300_000, minimum=1,
        doc="Interval of the search for segments that retention deletes.",
    ),
    _int("log.segment.bytes", 1024 * _MEBI, minimum=_MEBI,
        doc="Size of a segment file; default of a topic's segment.bytes.",
    ),
    _long("log.roll.ms", None, minimum=1,
        doc="Age at which a new segment is started; default of a topic's segment.ms. Null: "
        "log.roll.hours.",
    ),
    _int("log.roll.hours", 168, minimum=1, doc="log.roll.ms in hours."),
    _int("log.index.interval.bytes", 4_096, minimum=0,
        doc="Bytes between two entries of the sparse index; default of a topic's "
        "index.interval.bytes.",
    ),
    _list("log.cleanup.policy", ("delete",), choices=("delete", "compact"),
        doc="Policy for old records; default of a topic's cleanup.policy.",
    ),
)

_CLEANER = (
    _long("log.cleaner.backoff.ms", 15_000, minimum=0,
        doc="Interval of the search for partitions that are due for compaction.",
    ),
    _double("log.cleaner.min.cleanable.ratio", 0.5, minimum=0, maximum=1,
        doc="Part of a log that must be uncompacted before it is compacted; default of a topic's "
        "min.cleanable.dirty.ratio.",
    ),
    _long("log.cleaner.delete.retention.ms", _DAY, minimum=0,
        doc="Time for which tombstones are kept; default of a topic's delete.retention.ms.",
    ),
    _long("log.cleaner.min.compaction.lag.ms", 0, minimum=0,
        doc="Age before which a record is not compacted; default of a topic's "
        "min.compaction.lag.ms.",
    ),
    _long("log.cleaner.max.compaction.lag.ms", LONG_MAX, minimum=1,
        doc="Age at which a record makes its log due for compaction; default of a topic's "
        "max.compaction.lag.ms.",
    ),
)

_PRODUCE_AND_FETCH = (
    _int("producer.id.expiration.ms", _DAY, minimum=1,
        doc="Time for which the sequence numbers of an idle idempotent producer are kept.",
    ),
    _int("fetch.max.bytes", 55 * _MEBI, minimum=1_024,
        doc="Largest Fetch response, whatever the request asks for.",
    ),
    _int("max.incremental.fetch.session.cache.slots", 1_000, minimum=0,
        doc="Largest number of fetch sessions; further clients get full fetches.",
    ),
)

_OURS = (
    _string("workers", "1", check=number_of_workers, ours=True,
        doc="Number of processes of kohort serve, or auto: one for each processor. Each is a "
        "broker of its own, with the next node id and the next port of each listener.",
    ),
    _string("storage", "local", check=parse_storage, ours=True,
        doc="Place of the logs. local: files below log.dir; memory: lost when the server ends; "
        "postgresql://USER@HOST:PORT/DATABASE: tables, which need the extra kohort[postgres]. "
        "Servers with the same tables, and a node.id each, are the nodes of a cluster: they share "
        "the partitions, take over from one that is gone, and connect to each other by "
        "inter.broker.listener.name.",
    ),
    _boolean("memory.restart.visible", False, ours=True,
        doc="Whether clients notice a restart with storage=memory: leader epochs begin at the "
        "second of the start, and members of an unknown consumer group get UNKNOWN_MEMBER_ID and "
        "join again. Kafka's GROUP_ID_NOT_FOUND ends librdkafka's consumers. true with --memory.",
    ),
    _boolean("cluster.enabled", False, ours=True,
        doc="No effect: with storage=postgresql a server is a node of a cluster, which may have no "
        "other one. true is refused with another storage.",
    ),
    _int("cluster.rebalance.delay.ms", 30_000, ours=True,
        doc="Time after a node came until partitions move to it: often several come one after the "
        "other. Partitions without a leader get one at once.",
    ),
    _int("cluster.drain.timeout.ms", 5_000, ours=True,
        doc="Time that a node which is stopped has to hand its partitions over. The other nodes "
        "read them first. What is left then is taken over as from a node that is gone. 0: all.",
    ),
    _string("durability", "os", choices=("os", "fsync"), ours=True,
        doc="What an acknowledged append survives. os: a killed process; fsync: a power loss. In "
        "PostgreSQL it is committed, and survives what the database does.",
    ),
    _long("queued.max.response.bytes", 256 * _MEBI, ours=True,
        doc="Total bytes of responses that clients have not read, over all connections. Fetch "
        "responses shrink towards it; beyond it, the connection that has not read for longest is "
        "closed. -1: unlimited.",
    ),
    _long("produce.inflated.max.bytes", 256 * _MEBI, minimum=1, ours=True,
        doc="Total size of all record batches of one Produce request after decompression; batches "
        "beyond it are rejected with MESSAGE_TOO_LARGE.",
    ),
    _long("stray.retention.ms", 7 * 86_400_000, minimum=-1, ours=True,
        doc="How long partition directories that belong to no topic are kept after they were "
        "renamed to …-stray; -1 keeps them.",
    ),
    _string("local.socket", None, ours=True,
        doc="Path of a Unix socket for programs of the server's user on this machine, who may do "
        "everything; clients connect to unix:PATH. Null: none.",
    ),
    _boolean("insecure", False, ours=True,
        doc="Whether a listener without TLS or without authentication may be reached by other "
        "machines.",
    ),
    _string("http.listen", None, check=parse_http, ours=True,
        doc="Address of the HTTP port with /metrics, /health, /ready and /groups, as HOST:PORT or "
        "https://HOST:PORT; null: none. Its TLS has the settings of a listener named HTTP.",
    ),
    _password("http.token", None, ours=True,
        doc="Token that the HTTP port asks for as Authorization: Bearer TOKEN, but for the status "
        "in /health and /ready; null: none.",
    ),
    _string("http.principal", "User:ANONYMOUS", check=KafkaPrincipal.parse, ours=True,
        doc="Principal of all who use the HTTP port: with an authorizer, the port shows the "
        "groups and topics that this principal may describe.",
    ),
    _string("logging.format", "text", choices=("text", "json"), ours=True,
        doc="Format of the log lines on standard error.",
    ),
    _string("logging.level", "info", ours=True, choices=("debug", "info", "warning", "error"),
        doc="Least severe level that is logged.",
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
