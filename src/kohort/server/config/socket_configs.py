"""Settings of listeners, connections and their limits."""

from typing import Final

from kohort.security import SecurityProtocol
from kohort.server.addresses import java_host, parse_listener
from kohort.server.config.definition import INT_MAX
from kohort.server.config.rows import MEBI, int_row, list_row, long_row, string_row


def connections_of_ip(text: str) -> tuple[str, int]:
    """The address and the number in `ADDRESS:NUMBER`. Raises ValueError."""
    address, _, number = text.rpartition(":")
    if not address or not (number.isascii() and number.isdigit()):
        raise ValueError(f"{text!r} is not ADDRESS:NUMBER")
    return java_host(address.strip("[]")), int(number)


# One configuration, one paragraph: a formatter would give each argument a line of its own.
# fmt: off
SERVER: Final = (
    list_row("listeners", ("127.0.0.1:9092",), check=parse_listener,
        doc="Addresses to listen on, as HOST:PORT or NAME://HOST:PORT. The default name is "
        "PLAINTEXT. Port 0: any free port. Kafka's default is every interface.",
    ),
    list_row("advertised.listeners", None, check=parse_listener,
        doc="Addresses that clients connect to, one per listener name. Other listeners advertise "
        "their own address. Port 0: the port listened on. {hostname} in it: the name of this "
        "machine or container.",
    ),
    list_row("listener.security.protocol.map",
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        doc="Security protocol of each listener, as NAME:PROTOCOL.",
    ),
    string_row("inter.broker.listener.name", None,
        doc="Name of the listener for connections between the nodes of a cluster. Null: the value "
        "of security.inter.broker.protocol.",
    ),
    string_row("security.inter.broker.protocol", "PLAINTEXT", choices=tuple(SecurityProtocol),
        doc="Name of the listener for connections between the nodes of a cluster. Cannot be set "
        "together with inter.broker.listener.name.",
    ),
    int_row("node.id", 0, minimum=0, doc="Id of this broker in responses. Kafka has no default."),
    int_row("broker.id", None, minimum=0, doc="Old name of node.id."),
    string_row("broker.rack", None,
        doc="Rack of this broker, for rack-aware assignors of clients.",
    ),
    string_row("log.dir", "data",
        doc="Directory of all topics, groups and metadata, used by one server at a time. Kafka's "
        "default is /tmp/kafka-logs.",
    ),
    int_row("num.recovery.threads.per.data.dir", 2, minimum=1,
        doc="Number of threads that recover logs at startup after a crash of the machine.",
    ),
)

CONNECTIONS: Final = (
    int_row("max.connections", INT_MAX, minimum=1, per_listener=True,
        doc="Maximum number of open connections. Further connections wait until one is closed.",
    ),
    int_row("max.connections.per.ip", INT_MAX, minimum=1,
        doc="Maximum number of open connections from one IP address. Further connections are "
        "closed.",
    ),
    list_row("max.connections.per.ip.overrides", (), check=connections_of_ip,
        doc="Overrides of max.connections.per.ip, as ADDRESS:NUMBER.",
    ),
    int_row("max.connection.creation.rate", INT_MAX, minimum=1, per_listener=True,
        doc="Maximum number of new connections per second; further connections wait. Bursts of "
        "ten seconds' worth are allowed.",
    ),
    long_row("connections.max.idle.ms", 600_000,
        doc="Time after which an idle connection without a pending request is closed.",
    ),
    int_row("socket.request.max.bytes", 100 * MEBI, minimum=1,
        doc="Maximum size of a request. Larger requests close the connection.",
    ),
    int_row("quota.window.num", 11, minimum=1,
        doc="Number of samples that are kept for client quotas.",
    ),
    int_row("quota.window.size.seconds", 1, minimum=1,
        doc="Time span of each sample of client quotas.",
    ),
    long_row("queued.max.request.bytes", -1,
        doc="Maximum total size of requests in progress, over all connections. Beyond it, no "
        "further requests are read. -1: unlimited.",
    ),
)
