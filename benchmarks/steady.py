"""Rounds of one kind of request at a steady rate: one in flight on each connection of the load."""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

from benchmarks import load, rounds
from benchmarks.report import Column
from benchmarks.servers import Server

JVM_WARM_UP_S = 30.0
WARM_UP_S = 1.0
Ratio: TypeAlias = tuple[str, str]
"""Title of a column, and the server whose figure of the same round is the divisor."""
KAFKA: Ratio = ("× Kafka", "kafka")


def measured(
    plan: rounds.Plan,
    mode: str,
    *,
    topic: str = "bench",
    topic_partitions: int = 0,
    jvm_warm_up_s: float = JVM_WARM_UP_S,
    **options: Any,
) -> rounds.Samples:
    """Measure the load program's `mode` with `options` on each server in turn, after a warm-up.

    `topic` is created first with `topic_partitions`, unless these are 0.
    """

    def measure(server: Server, seconds: float) -> load.Steady:
        return load.steady(server, mode, topic=topic, seconds=seconds, **options)

    def warm_up(key: str, server: Server) -> None:
        if topic_partitions:
            load.make_topic(server, topic_partitions, topic)
        measure(server, jvm_warm_up_s if key == "kafka" else WARM_UP_S)

    return rounds.interleaved(plan, partial(measure, seconds=plan.seconds), warm_up=warm_up)


def columns(
    unit: str,
    *,
    per_s: Sequence[Ratio] = (KAFKA,),
    per_cpu_s: Sequence[Ratio] = (KAFKA,),
    load_cores: bool = True,
) -> Sequence[Column]:
    """Columns of all figures, in requests of that name, with ratios of rates to other servers."""
    return (
        Column(f"{unit}/s", "per_s"),
        *(Column(title, "per_s", server) for title, server in per_s),
        Column("p50 ms", "p50_ms"),
        Column("p99 ms", "p99_ms"),
        Column("cores", "cores"),
        Column("per CPU-second", "per_cpu_s"),
        *(Column(title, "per_cpu_s", server) for title, server in per_cpu_s),
        *([Column("load's cores", "load_cores")] if load_cores else ()),
    )
