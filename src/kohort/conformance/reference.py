"""The answers that Apache Kafka gave: recorded once, kept in the package, one line of JSON for each
scenario.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from kohort.conformance.transcript import Step

SERVER = "Apache Kafka 4.3.0"
FILE = "apache-kafka-4.3.0.jsonl"


@dataclass(frozen=True)
class Reference:
    """A server's name and its steps by scenario."""

    server: str
    steps: Mapping[str, Sequence[Step]]


def load() -> Reference:
    """What is in the package."""
    return parse((files("kohort.conformance") / FILE).read_text(encoding="utf-8"))


def parse(text: str) -> Reference:
    head, *lines = (json.loads(line) for line in text.splitlines())
    return Reference(head["server"], {line["scenario"]: line["steps"] for line in lines})


def dump(server: str, steps: Mapping[str, Sequence[Step]]) -> str:
    """The file's text, in the order of the scenarios' names."""
    lines: list[object] = [{"server": server}]
    lines += [{"scenario": name, "steps": steps[name]} for name in sorted(steps)]
    return "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )


def path_in_source_tree() -> Path:
    """Where `record` writes when it is not told otherwise: next to this module."""
    return Path(__file__).with_name(FILE)
