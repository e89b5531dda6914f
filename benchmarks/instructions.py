"""Count a server's instructions for one request: `python -m benchmarks.instructions`

Valgrind's Callgrind runs `kohort serve --dev` on disk and counts the machine instructions of its
process, without those of the kernel. One connection has one request in flight: a heartbeat of a
classic and of a consumer group of one member, a commit of one partition, a batch of 16 records of
1 KiB, or a fetch of 64 such batches. The difference between two numbers of requests leaves out
what connections and groups cost. Counts hardly depend on the load of the machine.

`--before COMMIT` counts those of that commit's server too, and their ratio. Requires Valgrind.
"""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks import load, sources
from benchmarks.report import publish, table
from benchmarks.rounds import ENOUGH_ROUNDS, option_parser
from benchmarks.servers import Server, free_port, spawn
from benchmarks.tools import MissingError

FEW: Final = 200
MANY: Final = 1_000
START_S: Final = 300.0
READ: Final = "instructions-read"
BATCHES: Final = 256
REQUESTS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "heartbeat": ("heartbeats", {}),
    "consumer heartbeat": ("consumer-heartbeats", {"topic": "consumers", "partitions": 1}),
    "commit": ("commits", {"topic": "bench", "partitions": 1}),
    "produce": ("produce", {"topic": "written", "partitions": 1}),
    "fetch": ("fetch", {"topic": READ, "partitions": 1, "batches": BATCHES}),
}
"""Mode and options of the load program."""


class Counted:
    """A server under Callgrind."""

    def __init__(self, server: Server, output: Path) -> None:
        self._server, self._output = server, output
        self._dumps = 0

    def prepare(self) -> None:
        """Create the topics, and execute each request until Python has specialized its code."""
        for topic in ("bench", "written", READ, "consumers"):
            load.make_topic(self._server, 1, topic)
        self._run("produce", BATCHES, topic=READ, partitions=1)
        for mode, options in REQUESTS.values():
            self._run(mode, FEW, **options)
        self._control("--instr=on")
        self._count()

    def per_request(self, mode: str, options: Mapping[str, Any]) -> float:
        """Instructions of one request."""
        counts = []
        for requests in (FEW, MANY):
            self._run(mode, requests, **options)
            counts.append(self._count())
        return (counts[1] - counts[0]) / (MANY - FEW)

    def _run(self, mode: str, requests: int, **options: Any) -> None:
        with load.running(
            self._server, mode, requests=requests, group_size=1, warmup=0, **options
        ) as program:
            program.line()
            program.answer()

    def _count(self) -> int:
        """Instructions since the last count."""
        self._control("--dump")
        self._dumps += 1
        text = self._output.with_name(f"{self._output.name}.{self._dumps}").read_text()
        return int(re.findall(r"^totals: (\d+)", text, re.MULTILINE)[-1])

    def _control(self, option: str) -> None:
        command = ("callgrind_control", option, str(self._server.pid))
        subprocess.run(command, check=True, capture_output=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Count, print, and write the section."""
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=ENOUGH_ROUNDS, help="(%(default)s)")
    parser.add_argument("--before", metavar="COMMIT", help="count those of this commit too")
    options = parser.parse_args(argv)
    commits = ["", *([options.before] if options.before else [])]
    try:
        counts = [_counts(commit, options.rounds) for commit in commits]
    except MissingError as error:
        print(f"instructions are left out: {error}")
        return
    titles = ["request", "instructions", *(f"at {commit}" for commit in commits[1:])]
    rows = [
        [request, *(f"{of_commit[request]:,.0f}" for of_commit in counts)] for request in REQUESTS
    ]
    if options.before:
        titles.append("ratio")
        for row in rows:
            row.append(f"{counts[0][row[0]] / counts[1][row[0]]:.3f}")
    write = not options.dry and options.rounds >= ENOUGH_ROUNDS
    publish("instructions", "Instructions for one request", [table(titles, rows)], write=write)


def _counts(commit: str, rounds: int) -> Mapping[str, float]:
    """Median of the rounds, by request."""
    with sources.environment_of(commit) as environment, _counted(environment) as counted:
        counted.prepare()
        counts: dict[str, list[float]] = {request: [] for request in REQUESTS}
        for _ in range(rounds):
            for request, (mode, options) in REQUESTS.items():
                counts[request].append(counted.per_request(mode, options))
    for request, each in counts.items():
        figures = " ".join(f"{count:,.0f}" for count in each)
        print(f"  {commit or 'working tree'}: {request}: {figures}", flush=True)
    return {request: statistics.median(each) for request, each in counts.items()}


@contextmanager
def _counted(environment: Mapping[str, str]) -> Iterator[Counted]:
    if shutil.which("valgrind") is None:
        raise MissingError("Valgrind is not on the PATH")
    directory = Path(tempfile.mkdtemp(prefix="kohort-bench-"))
    port = free_port()
    callgrind = ("valgrind", "--tool=callgrind", "--instr-atstart=no")
    command = (
        *(*callgrind, f"--callgrind-out-file={directory / 'counts'}"),
        *(sys.executable, "-m", "kohort", "serve", "--dev", f"--listen=127.0.0.1:{port}"),
        f"--data={directory / 'data'}",
    )
    # Sets and dictionaries of strings have the same order in each run.
    fixed = {**environment, "PYTHONHASHSEED": "0"}
    # Under Callgrind it takes seconds from the first open port until it serves.
    server = spawn(
        "Kohort",
        command,
        port,
        str(directory),
        environment=fixed,
        ready=lambda: "listening" in (directory / "log").read_text(),
        within_seconds=START_S,
    )
    with server:
        yield Counted(server, directory / "counts")


if __name__ == "__main__":
    main()
