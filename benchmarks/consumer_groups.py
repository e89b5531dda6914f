"""Measure groups of the consumer protocol (KIP-848): `python -m benchmarks.consumer_groups`

- Heartbeats: 100 and then 2,000 connections are each a member of a Stable group of ten that shares
  ten partitions, with one ConsumerGroupHeartbeat v1 in flight. Prints as `benchmarks.heartbeats`.
- Groups: 1,000 and then 10,000 members, each a connection, share 1,000 partitions of one topic. All
  join at once; then one leaves; then all restart one after the other within 5 s, each as a new
  member. Prints the time until the group is stable and the CPU time of the server for each.
  Members heartbeat every second, and acknowledge an assignment at once. A group is stable when its
  members have all partitions, and the epoch of a target with everyone who has joined.
- Assignors: the CPU time of one target assignment of 10,000 partitions, for a new group and after
  one member has joined or left; beside the assignors of Kafka's server in a warm JVM. Both compute
  the same assignment. The least of several is taken. Kohort's time includes what Kafka does outside
  its assignors: finding the partitions without an owner, and comparing new targets with old ones.

All settings are the defaults: servers compute a target once in a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import assignors, load, rounds, steady
from benchmarks.assignors import KafkaAssignors
from benchmarks.report import Column, Target, publish, servers_table, table
from benchmarks.servers import Server

CONNECTIONS = (100, 2_000)
MEMBERS = (1_000, 10_000)
SERVERS = ("kohort-memory", "kohort-data", "kafka")
GROUP_SIZE = 10
PARTITIONS = 1_000
"""Number of partitions of the topic that a large group shares."""
ASSIGNED = 10_000
"""Partitions in an assignment whose computation is measured."""
ASSIGNMENTS = (
    *(
        (assignor, 1_000, topics, is_mixed)
        for assignor in ("uniform", "range")
        for topics, is_mixed in ((1, False), (100, False), (1_000, False), (100, True))
    ),
    ("uniform", 10_000, 1, False),
)
"""Assignor, members, topics that share the partitions, and whether every other member subscribes to
only half of the topics."""
HEARTBEATS = steady.columns("heartbeats")
STAGES = ("join", "leave", "restart")
CHANGES = tuple(
    column
    for stage in STAGES
    for column in (
        Column(f"{stage} → stable, s", f"{stage}_s"),
        Column("/ Kafka", f"{stage}_s", "kafka"),
        Column("CPU, s", f"{stage}_cpu_s"),
        Column("/ Kafka", f"{stage}_cpu_s", "kafka"),
    )
)
MANY = (
    "As the classic protocol (`benchmarks.heartbeats`): one event loop is one core, and with 2,000 "
    "connections a heartbeat costs half as much again as with 100."
)
COMPILED = (
    "Kafka's is compiled for this very input after fifty repetitions. A target is computed at most "
    "once in a second, and that of a large group in a thread of its own."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Seconds until a group is stable after each change, and CPU seconds of the server."""

    join_s: float
    join_cpu_s: float
    leave_s: float
    leave_cpu_s: float
    restart_s: float
    restart_cpu_s: float
    load_cores: float
    """CPU time of the load program per second, at most of the stages."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=4, argv=argv)
    parts = []
    for connections in CONNECTIONS:
        print(f"{connections:,} connections", flush=True)
        samples = steady.measured(
            plan,
            "consumer-heartbeats",
            topic=_topic(GROUP_SIZE),
            topic_partitions=GROUP_SIZE,
            partitions=GROUP_SIZE,
            group_size=GROUP_SIZE,
            connections=connections,
        )
        parts += [
            f"Heartbeats of {connections:,} connections",
            servers_table(samples, HEARTBEATS),
            _fast(samples, why=MANY if connections == CONNECTIONS[-1] else ""),
        ]
    for members in MEMBERS:
        print(f"{members:,} members", flush=True)
        measure = partial(_changes, members)
        samples = rounds.interleaved(plan, measure, warm_up=partial(_create_and_change, members))
        parts += [f"A group of {members:,} members", servers_table(samples, CHANGES)]
    if "kafka" in plan.servers:
        print("assignors", flush=True)
        parts += _assignors()
    publish("consumer_groups", "Groups of the consumer protocol", parts, write=plan.write)


# --- heartbeats ---


def _topic(partitions: int) -> str:
    return f"consumers-{partitions}"


def _fast(samples: rounds.Samples, why: str) -> str:
    own = "kohort-memory"
    targets = (
        Target("Kohort / Kafka", samples.ratio(own, "kafka", "per_s"), 1.3, why=why),
        Target(
            "Kohort / Kafka, per CPU-second", samples.ratio(own, "kafka", "per_cpu_s"), 2, why=why
        ),
    )
    return "\n".join(map(str, targets))


# --- groups ---


def _changes(members: int, server: Server) -> Changes:
    options = {"topic": _topic(PARTITIONS), "partitions": PARTITIONS}
    times: dict[str, float] = {}
    load_cores = 0.0
    with load.running(
        server, "consumer-group", connections=members, group_size=members, **options
    ) as program:
        program.line()
        for stage in STAGES:
            before = server.cpu_seconds()
            program.go_on()
            told = program.answer()
            times |= {
                f"{stage}_s": told["seconds"],
                f"{stage}_cpu_s": server.cpu_seconds() - before,
            }
            load_cores = max(load_cores, told["load_cpu_s"] / told["seconds"])
        program.go_on()
    return Changes(**times, load_cores=load_cores)


def _create_and_change(members: int, _key: str, server: Server) -> None:
    load.make_topic(server, PARTITIONS, _topic(PARTITIONS))
    _changes(members, server)


# --- assignors ---


def _assignors() -> list[str]:
    rows, targets = [], []
    with KafkaAssignors() as kafka:
        for assignor, members, topics, is_mixed in ASSIGNMENTS:
            new = assignors.new_group(assignor, members, topics, ASSIGNED, is_mixed=is_mixed)
            for what, group in (
                ("new group", new),
                ("one joined", assignors.one_joined(new)),
                ("one left", assignors.one_left(new)),
            ):
                of = f"{topics:,}, mixed" if is_mixed else f"{topics:,}"
                name = f"{assignor}, {members:,} members, topics: {of}, {what}"
                own_ms, kafka_ms = group.seconds() * 1e3, kafka.seconds(group) * 1e3
                figures = map(rounds.significant, (own_ms, kafka_ms, own_ms / kafka_ms))
                rows.append([name, *figures])
                print(f"  {' '.join(rows[-1])}", flush=True)
                if members == MEMBERS[0]:
                    target = Target(name, own_ms / kafka_ms, 3, at_least=False, why=COMPILED)
                    targets.append(str(target))
    titles = ("target assignment", "Kohort, ms", "Kafka, ms", "/ Kafka")
    return [
        f"Assignors, {ASSIGNED:,} partitions in all",
        table(titles, rows),
        "\n".join(targets),
    ]


if __name__ == "__main__":
    main()
