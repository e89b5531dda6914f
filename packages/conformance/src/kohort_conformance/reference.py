"""The recorded responses of Apache Kafka: a line of JSON per scenario, in the package.

The package has one file, named after the version: `apache-kafka-4.4.0.jsonl`. Its first line has
the server's name, and from its ApiVersions response the versions of each API and the levels of each
feature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeAlias

from kohort_conformance.transcript import Step

PREFIX, SUFFIX = "apache-kafka-", ".jsonl"
Range: TypeAlias = tuple[int, int]
"""The lowest and the highest version or level."""


@dataclass(frozen=True)
class Reference:
    """A server's name, its steps by scenario, and its ApiVersions."""

    server: str
    steps: Mapping[str, Sequence[Step]]
    apis: Mapping[int, Range] = field(default_factory=dict)
    """Versions by API key."""
    features: Mapping[str, Range] = field(default_factory=dict)
    """Levels by the feature's name."""


class MissingReferenceError(Exception):
    """The recorded responses are not installed."""


def load(directory: Traversable | None = None) -> Reference:
    """The reference in `directory`, by default the one in the package.

    Raises MissingReferenceError if it is not there.
    """
    directory = files("kohort_conformance") if directory is None else directory
    for file in directory.iterdir():
        if file.name.startswith(PREFIX) and file.name.endswith(SUFFIX):
            return parse(file.read_text(encoding="utf-8"))
    raise MissingReferenceError(
        f"the recorded responses of Apache Kafka are missing: {directory}/{PREFIX}*{SUFFIX}; "
        "install the package again"
    )


def parse(text: str) -> Reference:
    head, *lines = (json.loads(line) for line in text.splitlines())
    return Reference(
        head["server"],
        {line["scenario"]: line["steps"] for line in lines},
        {int(key): (low, high) for key, (low, high) in head.get("apis", {}).items()},
        {name: (low, high) for name, (low, high) in head.get("features", {}).items()},
    )


def dump(reference: Reference) -> str:
    """The file's text, in the order of the scenarios' names."""
    head = {
        "server": reference.server,
        "apis": dict(sorted(reference.apis.items())),
        "features": dict(sorted(reference.features.items())),
    }
    steps = reference.steps
    lines: list[object] = [head, *({"scenario": one, "steps": steps[one]} for one in sorted(steps))]
    return "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )


def write(reference: Reference, version: str, directory: Path | None = None) -> Path:
    """Write the file of this version, by default in the source tree, and remove all others."""
    directory = Path(__file__).parent if directory is None else directory
    for other in directory.glob(f"{PREFIX}*{SUFFIX}"):
        other.unlink()
    file = directory / f"{PREFIX}{version}{SUFFIX}"
    file.write_text(dump(reference), encoding="utf-8")
    return file
