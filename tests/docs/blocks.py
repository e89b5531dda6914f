"""The blocks of code in the pages, and which test file runs each: exactly one.

A block is fenced, and names its language. `RUNNERS` has the pages and languages of each test file,
`NOT_RUN` the reason for each block that no test can run. A comment in the line above a block tells
its runner more, such as `<!-- needs opentelemetry -->`.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/*.md",
        "examples/**/*.md",
        "packages/*/*.md",
        "packaging/*.md",
        ".ci/*.md",
    )
    for path in ROOT.glob(pattern)
)
FENCED: Final = re.compile(
    r"^(?:<!-- (?P<how>[^\n]*) -->\n)?(?P<indent> *)```(?P<language>[^\n]*)\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
INDENTED: Final = re.compile(r"\n\n {4}\S[^\n]*")

RUNNERS: Final = {
    "tests/assignors/test_docs.py": ("docs/assignors.md python",),
    "tests/cli/test_cli_docs.py": ("docs/cli.md console",),
    "tests/client/security/test_security_properties.py": ("* properties",),
    "tests/conftest.py": ("docs/operations.md sql",),
    "tests/docs/test_cluster_blocks.py": ("docs/operations.md sh", "docs/operations.md url"),
    "tests/docs/test_code_blocks.py": (
        "README.md python", "docs/client.md python", "docs/coming-from.md python",
        "docs/errors.md python", "docs/operations.md python", "docs/testing.md python",
    ),

    "tests/docs/test_history_blocks.py": (
        "docs/history.md yaml", "docs/history.md ini", "docs/history.md crontab",
    ),
    "tests/docs/test_log_blocks.py": ("docs/operations.md text",),
    "tests/docs/test_secured_blocks.py": ("docs/security.md console", "examples/*.md sh"),
    "tests/docs/test_shell_blocks.py": (
        "README.md sh", "CONTRIBUTING.md sh", "docs/cli.md sh", "docs/configuration.md sh",
        "docs/conformance.md sh", "docs/spark.md sh", "packages/*.md sh",
    ),
    "tests/docs/test_source_blocks.py": ("docs/conformance.md python", "docs/design.md text"),
    "tests/interop/test_history_acls.py": ("docs/history.md bash",),
    "tests/server/logging/test_audit.py": ("docs/security.md json",),
    "tests/server/config/test_config.py": ("* toml",),
    "tests/server/monitoring/test_observer.py": ("docs/operations.md json",),
    "tests/spark/history/test_docs.py": ("docs/history.md python", "docs/history.md sh"),
    "tests/testing/control/test_control_docs.py": ("docs/testing.md bash",),
    "tests/spark/test_docs.py": ("docs/spark.md python", "docs/spark.md sql"),
}  # fmt: skip
"""The pages and languages of which each test file runs the blocks, as patterns."""

_DELTA: Final = "Delta has no JAR for this Spark"
_CLUSTER: Final = "needs a cluster of YARN, Kubernetes or Spark"
NOT_RUN: Final = {
    ("README.md", "make run"): "installs; `.ci/extras` does so, and CI's `make` targets",
    ("README.md", "pip install"): "installs from the address of a repository",
    ("docs/coming-from.md", "consumer = AIOKafkaConsumer"): "a part of a program of aiokafka",
    ("docs/conformance.md", "make record"): "starts an Apache Kafka and records it",
    ("docs/design.md", "result = shard"): "the idea, not the code",
    ("docs/operations.md", "2026-01-31T09:31:00"): "a line after a minute of rebalances",
    ("docs/operations.md", "kafka-configs.sh"): "a command of Apache Kafka",
    ("docs/history.md", "TIME "): "a group of one member, killed and restarted",
    ("docs/history.md", "history/_batches"): "names of files",
    ("docs/spark.md", "def append(rows"): _DELTA,
    ("docs/spark.md", "pip wheel"): f"{_CLUSTER}; tests/spark/test_cluster.py sends such a file",
    ("docs/spark.md", "python -m venv env"): _CLUSTER,
    ("docs/spark.md", "FROM apache/spark"): _CLUSTER,
    ("examples/cluster/README.md", "cd examples/cluster"): "needs Docker",
    ("examples/cluster/README.md", "kubectl create"): "needs Kubernetes",
    ("examples/cluster/README.md", "kubectl exec"): "needs Kubernetes",
    ("packaging/README.md", "uv build"): "tests/container builds and runs the image",
    ("packaging/README.md", "debootstrap"): "runs tests",
    ("docs/testing.md", "[tool.pytest"): "tests/testing/test_pytest_plugin.py runs such a file",
    ("examples/testing/README.md", "pip install"): "installs; tests/examples runs the tests",
    ("examples/testing/README.md", "GenericContainer"): "needs Docker",
    ("examples/demo/README.md", "make run"): "takes a minute; tests/demo runs it",
}
"""Page and beginning of a block → why no test runs it."""


class Block(NamedTuple):
    page: str
    line: int
    """Of the first line of its code."""
    language: str
    code: str
    how: str | None
    """The comment above."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    """All blocks of all pages, in order."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for found in FENCED.finditer(text):
            line = text.count("\n", 0, found.start("code")) + 1
            code = re.sub(rf"^{found['indent']}", "", found["code"], flags=re.MULTILINE)
            yield Block(page, line, found["language"], code, found["how"])


def reasons(block: Block) -> list[str]:
    """Why no test runs the block."""
    return [
        why
        for (page, beginning), why in NOT_RUN.items()
        if block.page == page and block.code.startswith(beginning)
    ]


def runners(block: Block) -> list[str]:
    """The test files that run the block."""
    if reasons(block):
        return []
    place = f"{block.page} {block.language}"
    return [
        file
        for file, patterns in RUNNERS.items()
        if any(fnmatchcase(place, pattern) for pattern in patterns)
    ]


def run_by(file: str, page: str = "*") -> list[Block]:
    """The blocks of a test file, given as its `__file__`; only those of `page`."""
    name = Path(file).relative_to(ROOT).as_posix()
    return [block for block in blocks() if name in runners(block) and fnmatchcase(block.page, page)]
