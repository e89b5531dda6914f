"""Table of all settings of a server: name, type, default, range and documentation.

A Kafka name that is missing here does nothing in Kohort, and setting it is refused rather than
ignored. Where a default is not Kafka's, the text says so.
"""

from typing import Final

from kohort.security import KafkaPrincipal, MappingRules
from kohort.security.authorizer import super_users
from kohort.server.addresses import java_host, parse_http, parse_listener
from kohort.server.config.definition import INT_MAX, LONG_MAX, ConfigDef

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_MEBI = 1024 * 1024


def connections_of_ip(text: str) -> tuple[str, int]:
    """The address and the number in `ADDRESS:NUMBER`. Raises ValueError."""
    address, _, number = text.rpartition(":")
    if not address or not (number.isascii() and number.isdigit()):
        raise ValueError(f"{text!r} is not ADDRESS:NUMBER")
    return java_host(address.strip("[]")), int(number)


_HOUR = 3_600_000
_DAY = 24 * _HOUR

# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
_SERVER = (
    ConfigDef(
        name="listeners", kind="list", default=("127.0.0.1:9092",), check=parse_listener,
        doc="Addresses to listen on, as HOST:PORT or NAME://HOST:PORT; without a name it is "
        "PLAINTEXT. Port 0 takes a free port. Kafka's default is every interface.",
    ),
    ConfigDef(
        name="advertised.listeners", kind="list", default=None, check=parse_listener,
        doc="Addresses that clients connect to, by the names of listeners. A listener that is "
        "not named has its own address. Port 0: the port listened on.",
    ),
    ConfigDef(
        name="listener.security.protocol.map", kind="list",
        default=(
            "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL",
        ),
        doc="Security protocol of each listener, as NAME:PROTOCOL.",
    ),
    ConfigDef(
        name="node.id", kind="int", default=0, minimum=0,
        doc="Id of this broker in responses. Kafka has no default.",
    ),
    ConfigDef(name="broker.id", kind="int", default=None, minimum=0, doc="Old name of node.id."),
    ConfigDef(
        name="broker.rack", kind="string", default=None,
        doc="Rack of this broker in responses, for assignors of clients that prefer replicas in "
        "their own rack.",
    ),
    ConfigDef(
        name="log.dir", kind="string", default="data",
        doc="Directory of all topics, groups and metadata, used by one server at a time. Kafka's "
        "default is /tmp/kafka-logs.",
    ),
    ConfigDef(
        name="num.recovery.threads.per.data.dir", kind="int", default=2, minimum=1,
        doc="Number of logs that are checked at once at a start after a crash of the machine.",
    ),
)

_CONNECTIONS = (
    ConfigDef(
        name="max.connections", kind="int", default=INT_MAX, minimum=1, per_listener=True,
        doc="Largest number of open connections; a further one waits until another one ends.",
    ),
    ConfigDef(
        name="max.connections.per.ip", kind="int", default=INT_MAX, minimum=1,
        doc="Largest number of open connections from one address; a further one is closed at once.",
    ),
    ConfigDef(
        name="max.connections.per.ip.overrides", kind="list", default=(), check=connections_of_ip,
        doc="max.connections.per.ip of single addresses, as ADDRESS:NUMBER.",
    ),
    ConfigDef(
        name="max.connection.creation.rate", kind="int", default=INT_MAX, minimum=1,
        per_listener=True,
        doc="Largest number of new connections per second; further ones wait. Ten seconds worth "
        "may come at once.",
    ),
    ConfigDef(
        name="connections.max.idle.ms", kind="long", default=600_000,
        doc="Idle time after which a connection that waits for no response is closed.",
    ),
    ConfigDef(
        name="socket.request.max.bytes", kind="int", default=100 * _MEBI, minimum=1,
        doc="Largest request; a larger one closes its connection.",
    ),
    ConfigDef(
        name="quota.window.num", kind="int", default=11, minimum=1,
        doc="Number of windows over which the use of a client quota is measured.",
    ),
    ConfigDef(
        name="quota.window.size.seconds", kind="int", default=1, minimum=1,
        doc="Length of each window of client quotas.",
    ),
    ConfigDef(
        name="queued.max.request.bytes", kind="long", default=-1,
        doc="Total bytes of requests that may be in progress, over all connections, before reading "
        "pauses; -1: unlimited.",
    ),
)

_TLS = (
    ConfigDef(
        name="ssl.keystore.type", kind="string", default="PEM", choices=("PEM",),
        per_listener=True, doc="Format of the key store. Kafka has JKS, which is its default, too.",
    ),
    ConfigDef(
        name="ssl.keystore.location", kind="string", default=None, per_listener=True,
        doc="PEM file of the server's private key, encrypted or not, and its certificate chain.",
    ),
    ConfigDef(
        name="ssl.keystore.key", kind="password", default=None, per_listener=True,
        doc="The private key as PEM text, in place of ssl.keystore.location.",
    ),
    ConfigDef(
        name="ssl.keystore.certificate.chain", kind="password", default=None, per_listener=True,
        doc="The certificate chain as PEM text, with ssl.keystore.key.",
    ),
    ConfigDef(
        name="ssl.key.password", kind="password", default=None, per_listener=True,
        doc="Password of an encrypted private key.",
    ),
    ConfigDef(
        name="ssl.truststore.type", kind="string", default="PEM", choices=("PEM",),
        per_listener=True, doc="Format of the trust store. Kafka has JKS, which is its default, "
        "too.",
    ),
    ConfigDef(
        name="ssl.truststore.location", kind="string", default=None, per_listener=True,
        doc="PEM file of the authorities whose client certificates are accepted.",
    ),
    ConfigDef(
        name="ssl.truststore.certificates", kind="password", default=None, per_listener=True,
        doc="These authorities as PEM text, in place of ssl.truststore.location.",
    ),
    ConfigDef(
        name="ssl.client.auth", kind="string", default="none",
        choices=("none", "requested", "required"), per_listener=True,
        doc="Whether clients show a certificate. On a SASL listener only the setting with the "
        "listener's prefix counts, and the login names the principal.",
    ),
    ConfigDef(
        name="ssl.principal.mapping.rules", kind="string", default="DEFAULT",
        check=MappingRules.parse, per_listener=True,
        doc="Rules that turn the name in a client's certificate into a principal, as "
        "RULE:regex/replacement/[LU], separated by commas; DEFAULT is the whole name.",
    ),
    ConfigDef(
        name="ssl.enabled.protocols", kind="list", default=("TLSv1.2", "TLSv1.3"),
        choices=("TLSv1.2", "TLSv1.3"), per_listener=True, doc="Versions of TLS.",
    ),
    ConfigDef(
        name="ssl.cipher.suites", kind="list", default=(), per_listener=True,
        doc="Cipher suites of TLS 1.2, by OpenSSL's or IANA's names. Empty: those with forward "
        "secrecy and authenticated encryption. Kafka's default is Java's, which has more.",
    ),
    ConfigDef(
        name="ssl.allow.dn.changes", kind="boolean", default=False, per_listener=True,
        doc="Whether a certificate that replaces another may have another name.",
    ),
    ConfigDef(
        name="ssl.allow.san.changes", kind="boolean", default=False, per_listener=True,
        doc="Whether a certificate that replaces another may lack some of its alternative names.",
    ),
    ConfigDef(
        name="ssl.handshake.timeout.ms", kind="int", default=10_000, minimum=1, ours=True,
        per_listener=True, doc="Time that a client has for the TLS handshake.",
    ),
)

_AUTHORIZATION = (
    ConfigDef(
        name="authorizer.class.name", kind="string", default=None, choices=(STANDARD_AUTHORIZER,),
        doc="The authorizer, which allows clients what access control lists (ACLs) say; null: all "
        "clients may do everything.",
    ),
    ConfigDef(
        name="super.users", kind="string", default="", check=super_users,
        doc="Principals that may do everything, separated by semicolons: User:admin;User:ops.",
    ),
    ConfigDef(
        name="audit.log.file", kind="string", default=None, ours=True,
        doc="File that operations which ACLs deny are appended to, as JSON lines; null: none. "
        "SIGHUP opens it again.",
    ),
    ConfigDef(
        name="audit.log.decisions", kind="string", default="denied", choices=("denied", "all"),
        ours=True, doc="Whether operations that are allowed are in the audit log too.",
    ),
    ConfigDef(
        name="allow.everyone.if.no.acl.found", kind="boolean", default=False,
        doc="Whether all clients may use what no ACL is about.",
    ),
)

_SASL = (
    ConfigDef(
        name="sasl.enabled.mechanisms", kind="list", default=("SCRAM-SHA-256", "SCRAM-SHA-512"),
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), per_listener=True,
        doc="SASL mechanisms of listeners with SASL. Kafka's default is GSSAPI.",
    ),
    ConfigDef(
        name="sasl.jaas.config", kind="password", default=None, per_listener=True,
        doc="Users of PLAIN, with the prefix of a listener and plain: PlainLoginModule required "
        'user_NAME="PASSWORD" …;, with the module\'s whole name.',
    ),
    ConfigDef(
        name="connections.max.reauth.ms", kind="long", default=0, per_listener=True,
        doc="Longest SASL session, after which a client has to authenticate again (KIP-368); 0: "
        "sessions end only with their tokens.",
    ),
    ConfigDef(
        name="connection.failed.authentication.delay.ms", kind="int", default=100, minimum=0,
        doc="Time by which the response to a failed authentication is delayed.",
    ),
    ConfigDef(
        name="sasl.server.max.receive.size", kind="int", default=524_288, minimum=1,
        doc="Largest request before authentication; a larger one closes its connection.",
    ),
    ConfigDef(
        name="sasl.authentication.timeout.ms", kind="int", default=30_000, minimum=1, ours=True,
        doc="Time that a new connection has to authenticate by SASL.",
    ),
    ConfigDef(
        name="max.failed.authentications.per.ip", kind="int", default=100, minimum=1, ours=True,
        doc="Failed SASL authentications from one address (of IPv6: from 64 bits of it) in a "
        "minute beyond which it cannot authenticate until the minute has passed.",
    ),
    ConfigDef(
        name="sasl.oauthbearer.jwks.endpoint.url", kind="string", default=None, per_listener=True,
        doc="https or file URL of the keys (JWKS) that sign bearer tokens.",
    ),
    ConfigDef(
        name="org.apache.kafka.sasl.oauthbearer.allowed.urls", kind="list", default=(),
        doc="URLs that sasl.oauthbearer.jwks.endpoint.url may have. In Kafka, a system property.",
    ),
    ConfigDef(
        name="sasl.oauthbearer.jwks.endpoint.refresh.ms", kind="long", default=_HOUR, minimum=1_000,
        per_listener=True, doc="Interval at which these keys are read again.",
    ),
    ConfigDef(
        name="sasl.oauthbearer.expected.audience", kind="list", default=(), per_listener=True,
        doc="Audiences of which a token must have one; empty: any.",
    ),
    ConfigDef(
        name="sasl.oauthbearer.expected.issuer", kind="string", default=None, per_listener=True,
        doc="Issuer that a token must have; null: any.",
    ),
    ConfigDef(
        name="sasl.oauthbearer.clock.skew.seconds", kind="int", default=30, minimum=0,
        per_listener=True, doc="How far the clock of a token's issuer may differ.",
    ),
    ConfigDef(
        name="sasl.oauthbearer.sub.claim.name", kind="string", default="sub", per_listener=True,
        doc="Claim of a token that names the principal.",
    ),
    ConfigDef(
        name="sasl.oauthbearer.unsecured", kind="boolean", default=False, ours=True,
        per_listener=True, doc="Whether tokens without a signature are accepted if there is no "
        "sasl.oauthbearer.jwks.endpoint.url. Anybody can make them: for development only.",
    ),
)

_GROUPS = (
    ConfigDef(
        name="group.min.session.timeout.ms", kind="int", default=6_000,
        doc="Shortest session timeout of a member; a shorter one is rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    ConfigDef(
        name="group.max.session.timeout.ms", kind="int", default=1_800_000,
        doc="Longest session timeout of a member; a longer one is rejected with "
        "INVALID_SESSION_TIMEOUT.",
    ),
    ConfigDef(
        name="group.initial.rebalance.delay.ms", kind="int", default=3_000,
        doc="Time that an empty group waits for more members before its first rebalance completes; "
        "0 with --dev.",
    ),
    ConfigDef(
        name="group.pending.max.bytes", kind="long", default=64 * _MEBI, minimum=_MEBI, ours=True,
        doc="Memory of member ids that were handed out and not yet joined with, divided evenly "
        "over the partitions of __consumer_offsets; beyond it, the oldest are forgotten.",
    ),
    ConfigDef(
        name="group.max.size", kind="int", default=INT_MAX, minimum=1,
        doc="Largest number of members in one group; a further JoinGroup is rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
)

_CONSUMER_GROUPS = (
    ConfigDef(
        name="group.coordinator.rebalance.protocols", kind="list",
        default=("classic", "consumer"), choices=("classic", "consumer"),
        doc="Protocols of groups; classic is always served. Kafka has streams, too.",
    ),
    ConfigDef(
        name="group.consumer.session.timeout.ms", kind="int", default=45_000, minimum=1,
        doc="Session timeout of members of consumer groups (KIP-848), unless the group has one.",
    ),
    ConfigDef(
        name="group.consumer.min.session.timeout.ms", kind="int", default=45_000, minimum=1,
        doc="Lower bound of a group's own consumer.session.timeout.ms.",
    ),
    ConfigDef(
        name="group.consumer.max.session.timeout.ms", kind="int", default=60_000, minimum=1,
        doc="Upper bound of a group's own consumer.session.timeout.ms.",
    ),
    ConfigDef(
        name="group.consumer.heartbeat.interval.ms", kind="int", default=5_000, minimum=1,
        doc="Heartbeat interval of members of consumer groups, unless the group has one.",
    ),
    ConfigDef(
        name="group.consumer.min.heartbeat.interval.ms", kind="int", default=5_000, minimum=1,
        doc="Lower bound of a group's own consumer.heartbeat.interval.ms.",
    ),
    ConfigDef(
        name="group.consumer.max.heartbeat.interval.ms", kind="int", default=15_000, minimum=1,
        doc="Upper bound of a group's own consumer.heartbeat.interval.ms.",
    ),
    ConfigDef(
        name="group.consumer.assignment.interval.ms", kind="int", default=1_000, minimum=0,
        doc="Shortest time between two target assignments of a consumer group, unless the group "
        "has one. 0 with --dev.",
    ),
    ConfigDef(
        name="group.consumer.min.assignment.interval.ms", kind="int", default=0, minimum=0,
        doc="Lower bound of a group's own consumer.assignment.interval.ms.",
    ),
    ConfigDef(
        name="group.consumer.max.assignment.interval.ms", kind="int", default=15_000, minimum=0,
        doc="Upper bound of a group's own consumer.assignment.interval.ms.",
    ),
    ConfigDef(
        name="group.consumer.max.size", kind="int", default=INT_MAX, minimum=1,
        doc="Largest number of members in one consumer group; a further one is rejected with "
        "GROUP_MAX_SIZE_REACHED.",
    ),
    ConfigDef(
        name="group.consumer.assignors", kind="list", default=("uniform", "range"),
        choices=("uniform", "range"),
        doc="Assignors that members of consumer groups may name. The first one serves groups whose "
        "members name none.",
    ),
    ConfigDef(
        name="group.consumer.migration.policy", kind="string", default="bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        doc="Whether a group that has members may become a consumer group, when a member of the "
        "consumer protocol joins, or a classic one, when the last one of them leaves.",
    ),
)

_OFFSETS = (
    ConfigDef(
        name="offset.metadata.max.bytes", kind="int", default=4_096,
        doc="Longest metadata of a commit, in characters; longer metadata is rejected with "
        "OFFSET_METADATA_TOO_LARGE.",
    ),
    ConfigDef(
        name="offsets.retention.minutes", kind="int", default=10_080, minimum=1,
        doc="Time after which committed offsets expire, counted from when their group became empty "
        "or from their commit (KIP-211).",
    ),
    ConfigDef(
        name="offsets.retention.check.interval.ms", kind="long", default=600_000, minimum=1,
        doc="Interval of the search for expired offsets and groups.",
    ),
    ConfigDef(
        name="offsets.topic.num.partitions", kind="int", default=50, minimum=1,
        doc="Number of partitions of __consumer_offsets; read when the topic is created, at the "
        "first start.",
    ),
    ConfigDef(
        name="offsets.topic.segment.bytes", kind="int", default=100 * _MEBI, minimum=_MEBI,
        doc="Segment size of __consumer_offsets; a small one makes loading and compaction fast.",
    ),
)

_TRANSACTIONS = (
    ConfigDef(
        name="transaction.max.timeout.ms", kind="int", default=900_000, minimum=1,
        doc="Longest transaction.timeout.ms of a producer; a longer one is rejected with "
        "INVALID_TRANSACTION_TIMEOUT.",
    ),
    ConfigDef(
        name="transactional.id.expiration.ms", kind="int", default=7 * _DAY, minimum=1,
        doc="Time without a transaction after which a transactional id is forgotten.",
    ),
    ConfigDef(
        name="transaction.remove.expired.transaction.cleanup.interval.ms", kind="int",
        default=_HOUR, minimum=1,
        doc="Interval of the search for expired transactional ids.",
    ),
    ConfigDef(
        name="transaction.state.log.num.partitions", kind="int", default=50, minimum=1,
        doc="Number of partitions of __transaction_state; read when the topic is created, at the "
        "first start.",
    ),
    ConfigDef(
        name="transaction.state.log.segment.bytes", kind="int", default=100 * _MEBI, minimum=_MEBI,
        doc="Segment size of __transaction_state; a small one makes loading and compaction fast.",
    ),
)

_TOPICS = (
    ConfigDef(
        name="auto.create.topics.enable", kind="boolean", default=True,
        doc="Whether a Metadata request for an unknown topic creates it.",
    ),
    ConfigDef(
        name="num.partitions", kind="int", default=1, minimum=1,
        doc="Number of partitions of a topic that is created automatically, or without a number.",
    ),
    ConfigDef(
        name="delete.topic.enable", kind="boolean", default=True,
        doc="Whether DeleteTopics is served; otherwise it is rejected with "
        "TOPIC_DELETION_DISABLED.",
    ),
    ConfigDef(
        name="message.max.bytes", kind="int", default=_MEBI + 12, minimum=0,
        doc="Largest record batch; default of a topic's max.message.bytes.",
    ),
    ConfigDef(
        name="compression.type", kind="string", default="producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="producer: batches are stored as produced; otherwise batches of another codec are "
        "recompressed. Default of a topic's compression.type.",
    ),
    ConfigDef(
        name="log.message.timestamp.type", kind="string", default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Clock that stamps records: the producer's or the server's; default of a topic's "
        "message.timestamp.type.",
    ),
    ConfigDef(
        name="log.message.timestamp.before.max.ms", kind="long", default=LONG_MAX, minimum=0,
        doc="Largest age of a record's CreateTime; default of a topic's "
        "message.timestamp.before.max.ms.",
    ),
    ConfigDef(
        name="log.message.timestamp.after.max.ms", kind="long", default=_HOUR, minimum=0,
        doc="Largest distance of a record's CreateTime into the future; default of a topic's "
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
        doc="Size of a partition beyond which old segments are deleted, -1: unlimited; default of "
        "a topic's retention.bytes.",
    ),
    ConfigDef(
        name="log.retention.check.interval.ms", kind="long", default=300_000, minimum=1,
        doc="Interval of the search for segments that retention deletes.",
    ),
    ConfigDef(
        name="log.segment.bytes", kind="int", default=1024 * _MEBI, minimum=_MEBI,
        doc="Size of a segment file; default of a topic's segment.bytes.",
    ),
    ConfigDef(
        name="log.roll.ms", kind="long", default=None, minimum=1,
        doc="Age at which a new segment is started; default of a topic's segment.ms. Null: "
        "log.roll.hours.",
    ),
    ConfigDef(
        name="log.roll.hours", kind="int", default=168, minimum=1, doc="log.roll.ms in hours.",
    ),
    ConfigDef(
        name="log.index.interval.bytes", kind="int", default=4_096, minimum=0,
        doc="Bytes between two entries of the sparse index; default of a topic's "
        "index.interval.bytes.",
    ),
    ConfigDef(
        name="log.cleanup.policy", kind="list", default=("delete",), choices=("delete", "compact"),
        doc="Policy for old records; default of a topic's cleanup.policy.",
    ),
)

_CLEANER = (
    ConfigDef(
        name="log.cleaner.backoff.ms", kind="long", default=15_000, minimum=0,
        doc="Interval of the search for partitions that are due for compaction.",
    ),
    ConfigDef(
        name="log.cleaner.min.cleanable.ratio", kind="double", default=0.5, minimum=0, maximum=1,
        doc="Part of a log that must be uncompacted before it is compacted; default of a topic's "
        "min.cleanable.dirty.ratio.",
    ),
    ConfigDef(
        name="log.cleaner.delete.retention.ms", kind="long", default=_DAY, minimum=0,
        doc="Time for which tombstones are kept; default of a topic's delete.retention.ms.",
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
        doc="Time for which the sequence numbers of an idle idempotent producer are kept.",
    ),
    ConfigDef(
        name="fetch.max.bytes", kind="int", default=55 * _MEBI, minimum=1_024,
        doc="Largest Fetch response, whatever the request asks for.",
    ),
    ConfigDef(
        name="max.incremental.fetch.session.cache.slots", kind="int", default=1_000, minimum=0,
        doc="Largest number of fetch sessions; further clients get full fetches.",
    ),
)

_OURS = (
    ConfigDef(
        name="storage", kind="string", default="local", choices=("local", "memory"), ours=True,
        doc="Place of the logs: files below log.dir, or memory (lost when the server ends).",
    ),
    ConfigDef(
        name="durability", kind="string", default="os", choices=("os", "fsync"), ours=True,
        doc="What an acknowledged append survives. os: a killed process; fsync: a power loss.",
    ),
    ConfigDef(
        name="queued.max.response.bytes", kind="long", default=256 * _MEBI, ours=True,
        doc="Total bytes of responses that clients have not read, over all connections. Fetch "
        "responses shrink towards it; beyond it, the connection that has not read for longest is "
        "closed. -1: unlimited.",
    ),
    ConfigDef(
        name="produce.inflated.max.bytes", kind="long", default=256 * _MEBI, minimum=1, ours=True,
        doc="Total size of all record batches of one Produce request after decompression; batches "
        "beyond it are rejected with MESSAGE_TOO_LARGE.",
    ),
    ConfigDef(
        name="stray.retention.ms", kind="long", default=7 * 86_400_000, minimum=-1, ours=True,
        doc="How long partition directories that belong to no topic are kept after they were "
            "renamed to …-stray; -1 keeps them.",
    ),
    ConfigDef(
        name="local.socket", kind="string", default=None, ours=True,
        doc="Path of a Unix socket for programs of the server's user on this machine, who may do "
        "everything; clients connect to unix:PATH. Null: none.",
    ),
    ConfigDef(
        name="insecure", kind="boolean", default=False, ours=True,
        doc="Whether a listener without TLS or without authentication may be reached by other "
        "machines.",
    ),
    ConfigDef(
        name="http.listen", kind="string", default=None, check=parse_http, ours=True,
        doc="Address of the HTTP port with /metrics, /health and /groups, as HOST:PORT or "
        "https://HOST:PORT; null: none. Its TLS has the settings of a listener named HTTP.",
    ),
    ConfigDef(
        name="http.token", kind="password", default=None, ours=True,
        doc="Token that the HTTP port asks for as Authorization: Bearer TOKEN, but for the status "
        "in /health; null: none.",
    ),
    ConfigDef(
        name="http.principal", kind="string", default="User:ANONYMOUS", check=KafkaPrincipal.parse,
        ours=True, doc="Principal of all who use the HTTP port: with an authorizer, the port shows "
        "the groups and topics that this principal may describe.",
    ),
    ConfigDef(
        name="logging.format", kind="string", default="text", choices=("text", "json"), ours=True,
        doc="Format of the log lines on standard error.",
    ),
    ConfigDef(
        name="logging.level", kind="string", default="info", ours=True,
        choices=("debug", "info", "warning", "error"),
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
