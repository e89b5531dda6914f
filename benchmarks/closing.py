"""Consumers of confluent-kafka whose `close()` never returns.

    python -m benchmarks.closing [runs] [--polled] [--remote]

A run (default 100) of each kind closes its consumers: a takeover after a kill, and a restart of a
static member. `--polled`: each consumer is polled until it has partitions before it is killed or
closed. `--remote`: the broker is in another process. A consumer that is not closed within 10 s
counts as hung.

librdkafka waits in `close()` for a request that it sends to itself (`rd_kafka_assign` in
confluent-kafka's handler of a rebalance), and loses it if the rebalance was not polled before.
Python's lock is held meanwhile, so each hung consumer ends its process.
"""

import argparse
import faulthandler
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from kohort.testing import EmbeddedKafka, RemoteKafka, ServerProcess

HUNG_S: Final = 10
TIMEOUT_S: Final = 60
MARK: Final = "closed"


class Group:
    """The consumers of one run, in the group `billing` on four partitions."""

    def __init__(self, kafka: EmbeddedKafka, *, polled: bool) -> None:
        self.kafka = kafka
        self.group = kafka.group("billing")
        self._polled = polled
        kafka.topic("orders", partitions=4)

    def start(self, **settings: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": "billing",
                "heartbeat.interval.ms": 50,
                "fetch.wait.max.ms": 10,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        consumer.subscribe(["orders"])
        return consumer

    def settle(self, *consumers: Consumer) -> None:
        """Wait until the group is stable; `--polled`: and until its members know it."""

        def poll() -> None:
            for consumer in consumers:
                consumer.poll(0)

        self.group.wait(state="Stable", members=len(consumers), poll=poll, timeout=TIMEOUT_S)
        deadline = time.monotonic() + TIMEOUT_S
        while self._polled and not all(consumer.assignment() for consumer in consumers):
            assert time.monotonic() < deadline, "a consumer got no partitions"
            poll()


def take_over(group: Group) -> None:
    a, b = group.start(), group.start()
    group.settle(a, b)
    group.kafka.kill(a)
    group.kafka.advance(45)
    group.settle(b)
    group.kafka.let_killed_leave()
    close(a)
    close(b)


def restart(group: Group) -> None:
    for _ in range(2):
        consumer = group.start(group_instance_id="billing-1")
        group.settle(consumer)
        close(consumer)


KINDS: Final[dict[str, Callable[[Group], None]]] = {"takeover": take_over, "restart": restart}


def close(consumer: Consumer) -> None:
    """Close a consumer; the process ends if that takes too long."""
    faulthandler.dump_traceback_later(HUNG_S, exit=True)
    consumer.close()
    faulthandler.cancel_dump_traceback_later()


@contextmanager
def started(control: str | None) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() if control is None else RemoteKafka(control) as kafka:
        yield kafka


def run(kind: str, runs: int, control: str | None, *, polled: bool) -> None:
    """Runs of one kind, in this process."""
    for _ in range(runs):
        with started(control) as kafka:
            KINDS[kind](Group(kafka, polled=polled))
        print(MARK, flush=True)


def count_hung(kind: str, runs: int, options: list[str]) -> int:
    """How many runs hung, of so many in child processes."""
    done = hung = 0
    while done < runs:
        command = [sys.executable, "-m", __spec__.name, str(runs - done), *options, "--of", kind]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        done += child.stdout.count(MARK)
        if child.returncode:
            assert "Timeout" in child.stderr, child.stderr
            done, hung = done + 1, hung + 1
    return hung


@contextmanager
def control_api(remote: bool) -> Iterator[list[str]]:
    """Options of a child process for the broker in another process, if there is one."""
    if not remote:
        yield []
        return
    with tempfile.TemporaryDirectory() as name:
        options = ("--dev", "--memory", "--control=127.0.0.1:0")
        with ServerProcess(*options, log=Path(name) / "server.log") as server:
            yield [f"--control={server.control}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=100)
    parser.add_argument("--polled", action="store_true")
    parser.add_argument("--remote", action="store_true")
    parser.add_argument("--of", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--control", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of:
        run(options.of, options.runs, options.control, polled=options.polled)
        return
    with control_api(options.remote) as of_broker:
        for kind in KINDS:
            polled = ["--polled"] if options.polled else []
            hung = count_hung(kind, options.runs, [*of_broker, *polled])
            print(f"{kind}: {hung} of {options.runs} runs hung", flush=True)


if __name__ == "__main__":
    main()
