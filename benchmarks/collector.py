"""CPU time of Python's garbage collector while a server commits offsets, by its thresholds.

    python -m benchmarks.collector [requests]

The requests (default 2,000) commit 100 partitions each, for 100 groups in turn, to a server in this
process, without sockets. A row for each setting: CPU time of all, share of the collector, its
longest pause, and what it found: objects that reference counts would not have freed.
"""

import asyncio
import gc
import socket
import sys
import time
from collections.abc import Callable
from struct import pack

from kohort.cli.serve import collect_seldom
from kohort.protocol.apis import BY_NAME
from kohort.protocol.framing import CONTENT
from kohort.protocol.messages import encode, request
from kohort.server.broker import Broker
from kohort.server.config import Config

REQUESTS, GROUPS, PARTITIONS = 2_000, 100, 100
COMMIT_VERSION = 8


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
    api = BY_NAME["offset_commit"]
    partitions = [
        {"partition_index": index, "committed_offset": number, "committed_metadata": ""}
        for index in range(PARTITIONS)
    ]
    body = encode(
        request(
            api.key,
            COMMIT_VERSION,
            group_id=f"group-{number % GROUPS}",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": "orders", "partitions": partitions}],
        )
    )
    content = pack(">hhih", api.key, COMMIT_VERSION, number, -1) + b"\0" + body
    return len(content).to_bytes(CONTENT, "big") + content


async def measure(requests: int) -> tuple[float, Pauses]:
    """CPU time (s) of the requests, and the collector's part in it."""
    settings = {"storage": "memory", "listeners": "127.0.0.1:0"}
    async with Broker(Config(settings)) as broker:
        broker.topics.create("orders", PARTITIONS)
        frames = [commit(number) for number in range(requests)]
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
    print(f"{'thresholds':<20} {'cpu s':>7} {'collector':>10} {'longest ms':>11} {'found':>6}")
    usual = gc.get_threshold()
    settings: tuple[Callable[[], object], ...] = (gc.enable, collect_seldom, gc.disable)
    for apply in settings:
        apply()
        taken, pauses = asyncio.run(measure(requests))
        name = ", ".join(map(str, gc.get_threshold())) if gc.isenabled() else "off"
        print(
            f"{name:<20} {taken:>7.2f} {pauses.total_s / taken:>10.1%} "
            f"{pauses.longest_s * 1000:>11.1f} {pauses.found:>6}",
            flush=True,
        )
    gc.set_threshold(*usual)
    gc.enable()


if __name__ == "__main__":
    main(sys.argv[1:])
