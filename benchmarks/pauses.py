"""Measure the pauses of partitions while a third member joins a group of two and leaves it.

Records come from a producer process, `python -m benchmarks.pauses ADDRESS TOPIC`, which runs until
its standard input ends.
"""

import select
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from json import loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import tools
from benchmarks.servers import Server

PARTITIONS = 12
TICK_S = 0.01
READY_S = 15.0
"""Within which a member has to come to its first record, and to end."""

Progress: TypeAlias = dict[int, list[tuple[int, int]]]
"""By partition: when it got on (ns), and with which member (by number), in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Longest times without progress."""

    join_any_ms: float
    join_stay_ms: float
    """Of partitions whose member is the same before and after; NaN if there are none."""
    leave_any_ms: float
    leave_stay_ms: float
    quiet_ms: float
    """Before the third joined: what the machine and the records' rate make of it."""


def disturb(server: Server, client: str, assignor: str, name: str, seconds: float) -> Pauses:
    """Run one group from its first member to its last.

    It is observed for `seconds` without changes. Then a third member is observed from its start
    until `seconds` after its first record, and for twice `seconds` after its command to leave.
    Raises TimeoutError if a member does not start to work or does not end.
    """
    admin = AdminClient({"bootstrap.servers": server.address, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        future.result(30)
    with ExitStack() as stack:
        command = ["benchmarks.pauses", server.address, name]
        stack.enter_context(_process(command))
        files = [Path(stack.enter_context(TemporaryDirectory())) / "records" for _ in range(3)]
        command = ["benchmarks.members", client, assignor, server.address, name, name]
        members = [stack.enter_context(_process([*command, str(file)])) for file in files]
        for member in members:
            _await(member, "imported")
        for member in members[:2]:
            _say(member)
        for member in members[:2]:
            _await(member, "ready")
        time.sleep(seconds)  # the second one's rebalance
        moments = [time.monotonic_ns()]
        time.sleep(seconds)
        moments.append(time.monotonic_ns())
        _say(members[2])
        _await(members[2], "ready")
        time.sleep(seconds)
        moments.append(time.monotonic_ns())
        _say(members[2])
        time.sleep(2 * seconds)
        moments.append(time.monotonic_ns())
        for member in members[:2]:
            _say(member)
        for member in members:
            if member.wait(READY_S):
                raise TimeoutError(f"a member failed with {member.returncode}")
        progress = _progress([loads(file.read_text()) for file in files])
    quiet, join, leave = ((begin, end) for begin, end in pairwise(moments))
    return Pauses(
        join_any_ms=_longest(progress, *join),
        join_stay_ms=_longest(_staying(progress, *join), *join),
        leave_any_ms=_longest(progress, *leave),
        leave_stay_ms=_longest(_staying(progress, *leave), *leave),
        quiet_ms=_longest(progress, *quiet),
    )


def _progress(told: list[list[tuple[int, int, int]]]) -> Progress:
    """Records that members saw, without repeated ones."""
    seen = sorted(
        (at, partition, offset, member)
        for member, each in enumerate(told)
        for at, partition, offset in each
    )
    progress: Progress = defaultdict(list)
    last: defaultdict[int, int] = defaultdict(lambda: -1)
    for at, partition, offset, member in seen:
        if offset > last[partition]:
            last[partition] = offset
            progress[partition].append((at, member))
    return progress


def _staying(progress: Progress, begin: int, end: int) -> Progress:
    """Partitions that have the same member at both times."""
    return {
        partition: moments
        for partition, moments in progress.items()
        if _member_at(moments, begin) == _member_at(moments, end) is not None
    }


def _member_at(moments: list[tuple[int, int]], when: int) -> int | None:
    return next((member for at, member in reversed(moments) if at <= when), None)


def _longest(progress: Progress, begin: int, end: int) -> float:
    """Longest time in ms without progress of a partition that ends after `begin`, or NaN."""
    longest = []
    for moments in progress.values():
        times = [at for at, _ in moments if at <= end]
        times = [
            *[at for at in times if at <= begin][-1:],
            *[at for at in times if at > begin],
            end,
        ]
        longest.append(max(later - at for at, later in pairwise(times)) / 1e6)
    return max(longest, default=float("nan"))


@contextmanager
def _process(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=tools.ROOT,
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _say(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _await(process: "subprocess.Popen[str]", word: str) -> None:
    """Wait for the next line of a member, which prints one at a time."""
    assert process.stdout is not None
    if (
        not select.select([process.stdout], [], [], READY_S)[0]
        or process.stdout.readline().strip() != word
    ):
        raise TimeoutError(f"a member was not {word} within {READY_S:g} s")


def produce(address: str, topic: str) -> None:
    """Produce a record to each partition every `TICK_S`, until standard input ends."""
    ended = threading.Event()

    def until_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=until_end, daemon=True).start()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 0})
    begin = time.monotonic()
    tick = 0
    while not ended.wait(max(begin + tick * TICK_S - time.monotonic(), 0)):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%016d" % tick, partition=partition)
        producer.poll(0)
        tick += 1


if __name__ == "__main__":
    produce(*sys.argv[1:])
