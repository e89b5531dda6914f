"""Apache Kafka's command line tools, called from one JVM, and the tables that they print."""

import queue
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from interop.processes import PATIENCE_S
from interop.programs import java
from kohort.testing.child_processes import die_with_parent

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"


class Tools:
    """One JVM that runs the tools: each is called with its own arguments and gives back what it
    printed.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._printed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._jvm = subprocess.Popen(
            java("ToolRunner", heap="256m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent(),
            text=True,
        )
        threading.Thread(target=_read, args=(self._jvm.stdout, self._printed), daemon=True).start()

    def run(self, *words: str) -> str:
        """AssertionError when the tool does not end; the next one gets a JVM of its own then."""
        assert self._jvm.stdin is not None
        self._jvm.stdin.write("\t".join(words) + "\n")
        self._jvm.stdin.flush()
        try:
            return self._printed.get(timeout=PATIENCE_S)
        except queue.Empty:
            self.close()
            self._start()
            raise AssertionError(f"not ended after {PATIENCE_S:g} s: {' '.join(words)}") from None

    def close(self) -> None:
        self._jvm.kill()
        self._jvm.wait()


def _read(stdout: Iterable[str], printed: queue.SimpleQueue[str]) -> None:
    lines: list[str] = []
    for line in stdout:
        if line == "END\n":
            printed.put("".join(lines))
            lines.clear()
        else:
            lines.append(line)


@dataclass(frozen=True)
class Tool:
    """One tool against one server: call it with its flags, get what it printed."""

    tools: Tools
    main_class: str
    address: str

    def __call__(self, *flags: str) -> str:
        return self.tools.run(self.main_class, "--bootstrap-server", self.address, *flags)


def rows(printed: str) -> list[dict[str, str]]:
    """The table in a tool's output: one dict per line, by the names in its header."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    header_at = next((at for at, line in enumerate(lines) if line[0] == "GROUP"), None)
    if header_at is None:
        raise AssertionError(f"no table in:\n{printed}")
    header = lines[header_at]
    return [
        dict(zip(header, line, strict=False))
        for line in lines[header_at + 1 :]
        if len(line) >= len(header) - 1
    ]


def offsets(printed: str, column: str) -> dict[int, int]:
    return {int(row["PARTITION"]): int(row[column]) for row in rows(printed)}
