"""Tables of results, on the terminal and in `RESULTS.md`, with one section per measurement."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.peers.kafka import VERSION as KAFKA_VERSION

from benchmarks.rounds import Samples, significant

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# Results

Written by the benchmarks (see `README.md`), one section per command. Each figure is the median of
the rounds of one run in which the servers took turns; a ratio is the median of the ratios of each
round. Load and server share the machine.
"""
ORDER = (
    "heartbeats",
    "commits",
    "instructions",
    "workers",
    "cluster",
    "failover",
    "rebalance",
    "consumer_groups",
    "throughput",
    "latency",
    "transactions",
    "security",
    "footprint",
    "embedded",
    "loading",
    "growth",
    "rolling_restart",
    "decode",
    "consume",
    "joining",
    "spark",
    "history",
    "history_report",
)


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of every server; with `to`, divided by that server's figure of the same round."""

    title: str
    figure: str
    to: str | None = None
    show: Callable[[float], str] = significant


@dataclass(frozen=True, slots=True)
class Target:
    """Bound of a figure: at least or at most `bound`."""

    what: str
    value: float | None
    bound: float
    at_least: bool = True
    why: str = ""
    """Known reason for a missed target, and what would help."""

    def __str__(self) -> str:
        if self.value is None:
            return f"- {self.what}: not measured"
        met = self.value >= self.bound if self.at_least else self.value <= self.bound
        relation = "≥" if self.at_least else "≤"
        verdict = "met" if met else f"**missed**{'. ' if self.why else ''}{self.why}"
        return (
            f"- {self.what}: {significant(self.value)} (target {relation} "
            f"{significant(self.bound)}), {verdict}"
        )


def servers_table(samples: Samples, columns: Sequence[Column], of: str = "server") -> str:
    """Table with one line per server, or per other subject."""
    rows = [
        [samples.names[key], *(_cell(samples, key, column) for column in columns)]
        for key in samples.names
    ]
    return table([of, *(column.title for column in columns)], rows)


def _cell(samples: Samples, key: str, column: Column) -> str:
    if column.to == key:
        return "1"
    to = column.to
    value = (
        samples.median(key, column.figure) if to is None else samples.ratio(key, to, column.figure)
    )
    return "–" if value is None else column.show(value)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned Markdown table: the first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_aligned(titles, widths), rule, *(_aligned(row, widths) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = cells
    return [
        first.ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)),
    ]


def publish(name: str, title: str, parts: Sequence[str], *, write: bool) -> None:
    """Print a measurement's section, and replace its previous section in the results."""
    body = "\n\n".join(part for part in parts if part)
    print(f"\n{title}\n\n{body}\n", flush=True)
    if write:
        command = (
            f"`python -m benchmarks.{name}` on {datetime.now(UTC):%Y-%m-%d}, {machine()}; "
            f"{versions()}."
        )
        _replace(name, f"## {title}\n\n{command}\n\n{body}\n")
        print(f"written to {RESULTS.name}", flush=True)


def _replace(name: str, section: str) -> None:
    old = RESULTS.read_text() if RESULTS.exists() else ""
    sections = dict(re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end -->\n", old, re.DOTALL))
    sections[name] = section
    kept = [f"<!-- {key} -->\n{sections[key]}<!-- end -->\n" for key in ORDER if key in sections]
    RESULTS.write_text("\n".join([HEAD, *kept]))


def load_average() -> str:
    """Other work on the machine, for measurements that it disturbs."""
    return f"Processes that could run, in the last 15 minutes: {os.getloadavg()[2]:.0f}."


def machine() -> str:
    """Processor, memory and kernel, as reported by the operating system."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = cpu[1].strip() if cpu else platform.machine()
    return f"{os.cpu_count()} cores of {name}, {memory:.0f} GiB, Linux {platform.release()}"


def versions() -> str:
    """Versions of every program involved."""
    packages = [
        f"{name} {importlib.metadata.version(name)}"
        for name in ("uvloop", "kio", "confluent-kafka")
    ]
    commit = _first_line("git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty")
    own = (
        f"Kohort {importlib.metadata.version('kohort')} ({commit}) on Python "
        f"{platform.python_version()}"
    )
    kfake = re.search(r"kfake (v\S+)", RESULTS.with_name("kfake").joinpath("go.mod").read_text())
    others = [
        f"Apache Kafka {KAFKA_VERSION}",
        _first_line("java", "-version"),
        f"kfake {kfake[1] if kfake else '?'}",
    ]
    return ", ".join(
        [own, *packages, *others, _first_line("go", "version"), _first_line("cc", "--version")]
    )


def _first_line(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return f"no {command[0]}"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0]
