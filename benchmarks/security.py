"""Measure TLS, logins by SCRAM and ACLs: `python -m benchmarks.security`

- Heartbeats: 100 connections are each a member of a Stable group of ten, as in
  `benchmarks.heartbeats`.
- Produce: 8 connections, each with one Produce of a batch of 16 records of 1 KiB in flight.
- Consume: 4 connections, each with one Fetch of 64 such batches in flight.
- New connections: 16 clients connect, get their ApiVersions and close, again and again; by TLS, and
  by TLS with a login by SCRAM-SHA-512.

Each is measured without TLS and with TLS 1.3. Every handshake is a whole one. The certificate is
that of `kohort certs dev` (ECDSA, P-256). Apache Kafka has a StandardAuthorizer and 204 ACLs, four
of them the client's. Kohort has them too, or no authorizer. The load decrypts with OpenSSL.

Prints rates, the same per CPU-second of the server, ratios to Apache Kafka, and what ACLs and TLS
cost: CPU time of Kohort for a request with them / without them. Five rounds take six minutes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import load, rounds, secured
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server

SERVERS = ("kohort-tls", "kohort-acls", "kafka-acls")
OPEN, OWN, KAFKA = SERVERS
WARM_UP_S = 0.3
JVM_WARM_UP_S = 8.0
PARTITIONS = 8
BATCH_MB = 16 * 1024 / 1e6
FETCH_BATCHES = 64
READ_BATCHES = 1024
"""In each partition of the topic that is read."""
READ_PARTITIONS = 4
WRITTEN, READ = "bench-written", "bench-read"
CLIENTS = 16
"""Which connect at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Figures of one kind of request."""

    plain: float
    """Requests or megabytes per second."""
    plain_per_cpu_s: float
    """The same per CPU-second of the server."""
    tls: float
    tls_per_cpu_s: float
    tls_cost: float
    """CPU time with TLS / without."""
    load_cores: float
    """CPU time of the load program per second, the larger of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """New connections per second, and per CPU-second of the server."""

    tls: float
    tls_per_cpu_s: float
    sasl: float
    sasl_per_cpu_s: float
    load_cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of request."""

    title: str
    unit: str
    mode: str
    """Mode of the load program."""
    options: dict[str, object]
    amount: float = 1
    """How much of the unit one request moves."""


KINDS = (
    Kind(
        title="Heartbeats, 100 connections",
        unit="per s",
        mode="heartbeats",
        options={"connections": 100},
    ),
    Kind(
        title="Produce, batches of 16 records of 1 KiB",
        unit="MB/s",
        mode="produce",
        options={"connections": PARTITIONS, "partitions": PARTITIONS, "topic": WRITTEN},
        amount=BATCH_MB,
    ),
    Kind(
        title="Consume, 1 MiB at a time",
        unit="MB/s",
        mode="fetch",
        options={
            "connections": READ_PARTITIONS,
            "partitions": READ_PARTITIONS,
            "topic": READ,
            "batches": READ_BATCHES,
        },
        amount=FETCH_BATCHES * BATCH_MB,
    ),
)
CONNECTION_COLUMNS = (
    Column("TLS, per s", "tls"),
    Column("× Kafka", "tls", KAFKA),
    Column("per CPU-second", "tls_per_cpu_s"),
    Column("× Kafka", "tls_per_cpu_s", KAFKA),
    Column("TLS and SCRAM, per s", "sasl"),
    Column("× Kafka", "sasl", KAFKA),
    Column("per CPU-second", "sasl_per_cpu_s"),
    Column("× Kafka", "sasl_per_cpu_s", KAFKA),
    Column("load's cores", "load_cores"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=1.2, argv=argv)
    parts = []
    for kind in KINDS:
        print(kind.title, flush=True)
        samples = rounds.interleaved(
            plan, partial(_requests, kind, plan.seconds), warm_up=partial(_warm_up, kind)
        )
        parts += [kind.title, servers_table(samples, _columns(kind)), _costs(samples, kind)]
    print("connections", flush=True)
    samples = rounds.interleaved(
        plan, partial(_connections, plan.seconds), warm_up=_warm_up_connections
    )
    parts += [
        f"New connections, {CLIENTS} at a time",
        servers_table(samples, CONNECTION_COLUMNS),
        _targets(samples, {"tls_per_cpu_s": "TLS", "sasl_per_cpu_s": "TLS and SCRAM"}),
    ]
    publish("security", "TLS, SCRAM and ACLs", parts, write=plan.write)


def _columns(kind: Kind) -> tuple[Column, ...]:
    return (
        Column(f"plain, {kind.unit}", "plain"),
        Column("× Kafka", "plain", KAFKA),
        Column("per CPU-second", "plain_per_cpu_s"),
        Column("× Kafka", "plain_per_cpu_s", KAFKA),
        Column(f"TLS, {kind.unit}", "tls"),
        Column("× Kafka", "tls", KAFKA),
        Column("per CPU-second", "tls_per_cpu_s"),
        Column("× Kafka", "tls_per_cpu_s", KAFKA),
        Column("TLS / plain, CPU", "tls_cost"),
        Column("load's cores", "load_cores"),
    )


def _costs(samples: rounds.Samples, kind: Kind) -> str:
    targets = _targets(samples, {"plain_per_cpu_s": "ACLs", "tls_per_cpu_s": "ACLs and TLS"})
    cost = samples.ratio(OPEN, OWN, "plain_per_cpu_s")
    if kind.mode == "fetch":
        return targets
    return f"{targets}\n{Target('CPU time with ACLs / without', cost, 1.03, at_least=False)}"


def _targets(samples: rounds.Samples, figures: dict[str, str]) -> str:
    return "\n".join(
        str(Target(f"{what}, Kohort / Kafka per CPU-second", samples.ratio(OWN, KAFKA, figure), 1))
        for figure, what in figures.items()
    )


def _requests(
    kind: Kind, seconds: float, server: Server, *, warm_up_s: float = WARM_UP_S
) -> Requests:
    measure = partial(_steady, server, kind.mode, seconds, warm_up_s, kind.options)
    plain, tls = measure(), measure(**_encrypted(server))
    return Requests(
        plain=plain.per_s * kind.amount,
        plain_per_cpu_s=plain.per_cpu_s * kind.amount,
        tls=tls.per_s * kind.amount,
        tls_per_cpu_s=tls.per_cpu_s * kind.amount,
        tls_cost=plain.per_cpu_s / tls.per_cpu_s,
        load_cores=max(plain.load_cores, tls.load_cores),
    )


def _connections(seconds: float, server: Server, *, warm_up_s: float = WARM_UP_S) -> Connections:
    measure = partial(_steady, server, "connects", seconds, warm_up_s, {"connections": CLIENTS})
    login = {"user": secured.USER, "password": secured.PASSWORD}
    tls, sasl = measure(**_encrypted(server)), measure(**_encrypted(server, by_sasl=True), **login)
    return Connections(
        tls=tls.per_s,
        tls_per_cpu_s=tls.per_cpu_s,
        sasl=sasl.per_s,
        sasl_per_cpu_s=sasl.per_cpu_s,
        load_cores=max(tls.load_cores, sasl.load_cores),
    )


def _steady(
    server: Server,
    mode: str,
    seconds: float,
    warm_up_s: float,
    options: dict[str, object],
    **further: object,
) -> load.Steady:
    return load.steady(server, mode, seconds=seconds, warmup=warm_up_s, **options, **further)


def _encrypted(server: Server, *, by_sasl: bool = False) -> dict[str, object]:
    assert server.listeners is not None
    port = server.listeners.sasl_port if by_sasl else server.listeners.tls_port
    return {"port": port, "tls": secured.certificates() / "ca.pem"}


def _warm_up(kind: Kind, key: str, server: Server) -> None:
    load.make_topic(server, PARTITIONS, WRITTEN)
    load.make_topic(server, READ_PARTITIONS, READ)
    if kind.mode == "fetch":
        load.steady(
            server,
            "produce",
            requests=READ_BATCHES,
            warmup=0,
            topic=READ,
            partitions=READ_PARTITIONS,
            connections=READ_PARTITIONS,
        )
    _requests(kind, WARM_UP_S, server, warm_up_s=_warm_up_seconds(key))


def _warm_up_connections(key: str, server: Server) -> None:
    _connections(WARM_UP_S, server, warm_up_s=_warm_up_seconds(key))


def _warm_up_seconds(key: str) -> float:
    return JVM_WARM_UP_S if key == KAFKA else 1


if __name__ == "__main__":
    main()
