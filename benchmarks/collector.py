"""CPU time of Python's garbage collector in a server, by its thresholds.

    python -m benchmarks.collector [requests]

The requests (default 2,000) go to a server in this process, without sockets:

- commits of 100 partitions each, for 100 groups in turn
- members that join 20 groups of the consumer protocol, and stay.

A row for each load and setting: CPU time of all, share of the collector, its longest pause, its
runs, and what it found: objects that reference counts would not have freed. The settings take three
turns, after one that is not measured; the row is of the turn with the least CPU time.
"""

import asyncio
import gc
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from benchmarks.requests import frame
from kohort.cli.serve import reduce_garbage_collection
from kohort.server.broker import Broker
from kohort.server.config import Config

REQUESTS, GROUPS, PARTITIONS = 2_000, 100, 100
JOINED_GROUPS = 20
TURNS = 3
COMMIT_VERSION, JOIN_VERSION = 8, 1


class Pauses:
    """What the collector took since it was entered."""

    def __init__(self) -> None:
        self.total_s = self.longest_s = self._begun = 0.0
        self.runs = self.found = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun = time.thread_time()
            return
        taken = time.thread_time() - self._begun
        self.total_s += taken
        self.longest_s = max(self.longest_s, taken)
        self.runs += 1
        self.found += info["collected"]


class Sink:
    """A transport whose peer takes everything."""

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: bytes) -> None:
        pass

    def writelines(self, pieces: object) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    abort = close


def commit(number: int) -> bytes:
    """The frame of one commit."""
    partitions = [
        {"partition_index": index, "committed_offset": number, "committed_metadata": ""}
        for index in range(PARTITIONS)
    ]
    topics = [{"name": "orders", "partitions": partitions}]
    group_id = f"group-{number % GROUPS}"
    return frame("offset_commit", COMMIT_VERSION, group_id=group_id, topics=topics)


def join(number: int) -> bytes:
    """The frame of the first heartbeat of a member."""
    return frame(
        "consumer_group_heartbeat",
        JOIN_VERSION,
        group_id=f"joined-{number % JOINED_GROUPS}",
        member_id=f"member-{number}",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )


LOADS: Final = {"commits": commit, "joins": join}


async def measure(frames: Sequence[bytes]) -> tuple[float, Pauses]:
    """CPU time (s) of the requests, and the collector's part in it."""
    settings = {"storage": "memory", "listeners": "127.0.0.1:0"}
    async with Broker(Config(settings)) as broker:
        broker.controller.topics.create("orders", PARTITIONS)
        with socket.socket() as unused:
            listener = broker.listener.listeners[0]
            connection = listener.new_connection("127.0.0.1", unused)
            assert connection is not None
            connection.connection_made(Sink())  # type: ignore[arg-type]
            gc.collect()
            gc.freeze()
            pauses = Pauses()
            gc.callbacks.append(pauses)
            begun = time.thread_time()
            for frame in frames:
                connection.data_received(frame)
                while not connection.is_idle:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            taken = time.thread_time() - begun
            gc.callbacks.remove(pauses)
            gc.unfreeze()
            connection.connection_lost(None)
    return taken, pauses


def main(arguments: list[str]) -> None:
    requests = int(arguments[0]) if arguments else REQUESTS
    usual = gc.get_threshold()
    settings: dict[str, Callable[[], object]] = {
        ", ".join(map(str, usual)): partial(gc.set_threshold, *usual),
        "as served": reduce_garbage_collection,
        "off": gc.disable,
    }
    head = ("load", "thresholds", "cpu s", "collector", "longest ms", "runs", "found")
    print("{:<8} {:<12} {:>6} {:>9} {:>10} {:>5} {:>6}".format(*head))
    for load, new in LOADS.items():
        frames = [new(number) for number in range(requests)]
        asyncio.run(measure(frames))
        measured: dict[str, list[tuple[float, Pauses]]] = {name: [] for name in settings}
        for _ in range(TURNS):
            for name, apply in settings.items():
                gc.enable()
                apply()
                measured[name].append(asyncio.run(measure(frames)))
        for name, turns in measured.items():
            taken, pauses = min(turns, key=itemgetter(0))
            print(
                f"{load:<8} {name:<12} {taken:>6.2f} {pauses.total_s / taken:>9.1%} "
                f"{pauses.longest_s * 1000:>10.1f} {pauses.runs:>5} {pauses.found:>6}",
                flush=True,
            )
    gc.set_threshold(*usual)
    gc.enable()


if __name__ == "__main__":
    main(sys.argv[1:])
