"""The recorded responses of Apache Kafka: a line of JSON per scenario, in the package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from kohort_conformance.transcript import Step

SERVER = "Apache Kafka 4.3.0"
FILE = "apache-kafka-4.3.0.jsonl"


@dataclass(frozen=True)
class Reference:
    """A server's name and its steps by scenario."""

    server: str
    steps: Mapping[str, Sequence[Step]]


class MissingReferenceError(Exception):
    """The recorded responses are not installed."""


def load(file: Traversable | None = None) -> Reference:
    """The reference in `file`, by default the one in the package.

    Raises MissingReferenceError if it is not there.
    """
    file = files("kohort_conformance") / FILE if file is None else file
    try:
        return parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingReferenceError(
            f"the recorded responses of {SERVER} are missing: {file}; install the package again"
        ) from None


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
    """The default file of `record`: next to this module."""
    return Path(__file__).with_name(FILE)
