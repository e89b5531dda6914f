"""Runs the client in Spark's processes, on an event loop with one open cluster per address.

The loop has a thread of its own. Spark calls data sources from plain functions, in several kinds of
processes: short-lived planners, one long-lived process per streaming source, workers that are
reused until they were idle for a minute. Through `run` and `cluster`, all of them use the same loop
and the connections of earlier calls.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from kohort.client.cluster import Cluster
from kohort.spark.connecting import client_config
from kohort.spark.raw_options import Pairs

T = TypeVar("T")


class _Background:
    """One loop on one daemon thread; of one process, since threads do not survive a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.clusters: dict[Pairs, Cluster] = {}
        threading.Thread(target=self.loop.run_forever, name="kohort", daemon=True).start()


_lock = threading.Lock()
_of_this_process: _Background | None = None


def _background() -> _Background:
    global _of_this_process
    with _lock:
        if _of_this_process is None or _of_this_process.pid != os.getpid():
            _of_this_process = _Background()
        return _of_this_process


def start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run `work` on the loop, beside the caller."""
    return asyncio.run_coroutine_threadsafe(work, _background().loop)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the loop and wait for it; the client bounds the time of its operations."""
    future = start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # the caller was interrupted
        raise


async def cluster(kafka: Pairs) -> Cluster:
    """The open cluster that these `kafka.*` options lead to; to be called on the loop."""
    clusters = _background().clusters
    if kafka not in clusters:
        clusters[kafka] = Cluster(client_config(dict(kafka)))
    return clusters[kafka]
