"""Settings that Kafka does not have."""

from typing import Final

from kohort.security import KafkaPrincipal
from kohort.server.addresses import parse_http
from kohort.server.config.rows import MEBI, boolean_row, int_row, long_row, password_row, string_row
from kohort.server.config.storage_url import parse_storage
from kohort.util.processors import processors

MAX_WORKERS: Final = 64
AUTO: Final = "auto"


def number_of_workers(text: str) -> int:
    """The number in `workers`; "auto" is that of the processors. Raises ValueError."""
    if text == AUTO:
        return min(processors(), MAX_WORKERS)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_WORKERS):
        raise ValueError(f"{text!r} is neither {AUTO} nor a number from 1 to {MAX_WORKERS}")
    return int(text)


# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
KOHORT: Final = (
    string_row("workers", "1", check=number_of_workers, kohort_only=True,
        doc="Number of worker processes, or auto: one per processor. Each worker is a broker, "
        "with consecutive node ids and ports.",
    ),
    string_row("storage", "local", check=parse_storage, kohort_only=True,
        doc="Storage of all data. local: files in log.dir; memory: lost when the server stops; "
        "postgresql://USER@HOST:PORT/DATABASE: tables (needs the extra kohort[postgres]). "
        "Servers with the same tables and different node.id are the nodes of a cluster: they "
        "share the partitions, take over those of a failed node, and connect to each other by "
        "inter.broker.listener.name.",
    ),
    boolean_row("memory.restart.visible", False, kohort_only=True,
        doc="Whether clients can detect a restart with storage=memory. If true, leader epochs "
        "begin at the start time in seconds, and members of an unknown consumer group get "
        "UNKNOWN_MEMBER_ID and rejoin. If false, they get GROUP_ID_NOT_FOUND as in Kafka, "
        "which is fatal in librdkafka. true with --memory.",
    ),
    boolean_row("cluster.enabled", False, kohort_only=True,
        doc="No effect: a server on PostgreSQL is always a cluster node. true is refused with "
        "another storage.",
    ),
    int_row("cluster.rebalance.delay.ms", 30_000, kohort_only=True,
        doc="Delay between the start of a node and the reassignment of partitions to it. "
        "Partitions without a leader are assigned immediately.",
    ),
    int_row("cluster.drain.timeout.ms", 5_000, kohort_only=True,
        doc="Maximum time that a stopping node hands its partitions over to other nodes. "
        "Partitions left after that are taken over as after a crash. 0: no drain.",
    ),
    string_row("durability", "os", choices=("os", "fsync"), kohort_only=True,
        doc="Durability of acknowledged appends. os: they survive a process crash; fsync: they "
        "survive a power loss. On PostgreSQL they are committed, with the durability of the "
        "database.",
    ),
    long_row("queued.max.response.bytes", 256 * MEBI, kohort_only=True,
        doc="Maximum total size of responses that clients have not read, over all connections. "
        "Fetch responses shrink as it is approached. Beyond it, the connection that has not "
        "read for the longest time is closed. -1: unlimited.",
    ),
    long_row("produce.inflated.max.bytes", 256 * MEBI, minimum=1, kohort_only=True,
        doc="Maximum total size of the batches of a Produce request after decompression. Batches "
        "beyond it are rejected with MESSAGE_TOO_LARGE.",
    ),
    long_row("stray.retention.ms", 7 * 86_400_000, minimum=-1, kohort_only=True,
        doc="Retention time of partition directories without a topic, which are renamed to "
        "…-stray. -1: unlimited.",
    ),
    string_row("local.socket", None, kohort_only=True,
        doc="Path of a Unix socket for local programs of the server's user, who are allowed all "
        "operations. Clients connect to unix:PATH. Null: none.",
    ),
    boolean_row("insecure", False, kohort_only=True,
        doc="Whether listeners without TLS or authentication may be reachable from other machines.",
    ),
    string_row("http.listen", None, check=parse_http, kohort_only=True,
        doc="Address of the HTTP port with /metrics, /health, /ready and /groups, as HOST:PORT or "
        "https://HOST:PORT. Null: none. Its TLS settings are those of a listener named HTTP.",
    ),
    password_row("http.token", None, kohort_only=True,
        doc="Bearer token that requests to the HTTP port must have, except for the status in "
        "/health and /ready. Null: none.",
    ),
    string_row("http.principal", "User:ANONYMOUS", check=KafkaPrincipal.parse, kohort_only=True,
        doc="Principal of requests to the HTTP port. With an authorizer, the port shows only "
        "groups and topics that this principal may describe.",
    ),
    string_row("logging.format", "text", choices=("text", "json"), kohort_only=True,
        doc="Format of log lines on standard error.",
    ),
    string_row("logging.level", "info", choices=("debug", "info", "warning", "error"),
        kohort_only=True,
        doc="Lowest level that is logged.",
    ),
)
