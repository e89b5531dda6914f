"""Runs the client in Spark's processes, on an event loop with one open cluster per address.

The loop has a thread of its own. Spark calls data sources from plain functions, in several kinds of
processes: short-lived planners, one long-lived process per streaming source, workers that are
reused until they were idle for a minute. Through `run` and `cluster`, all of them use the same loop
and the connections of earlier calls.
"""

from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from kohort.client.cluster import Cluster
from kohort.client.concurrency import BackgroundLoop, background_loop
from kohort.spark.kafka_options import client_config
from kohort.spark.raw_options import Pairs

T = TypeVar("T")

_clusters: Final[dict[BackgroundLoop, dict[Pairs, Cluster]]] = {}
"""The open clusters of each loop: a forked process has another loop."""


def start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run `work` on the loop without waiting for it."""
    return background_loop().start(work)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the loop and wait for it; the client bounds the time of its operations."""
    return background_loop().run(work)


async def cluster(kafka: Pairs) -> Cluster:
    """The open cluster of these `kafka.*` options. Call it on the loop."""
    clusters = _clusters.setdefault(background_loop(), {})
    if kafka not in clusters:
        clusters[kafka] = Cluster(client_config(dict(kafka)))
    return clusters[kafka]
