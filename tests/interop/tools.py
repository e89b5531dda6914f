"""Apache Kafka's command line tools, called from one JVM, and the tables that they print."""

import queue
import subprocess
import threading
from dataclasses import dataclass

from interop.processes import DIE_WITH_PARENT
from interop.programs import java

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class Tools:
    """One JVM that runs the tools: each is called with its own arguments and gives back what it printed."""

    def __init__(self) -> None:
        self._jvm = subprocess.Popen(
            java("ToolRunner", heap="128m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=DIE_WITH_PARENT,
            text=True,
        )
        self._printed: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._jvm.stdout is not None
        lines: list[str] = []
        for line in self._jvm.stdout:
            if line == "END\n":
                self._printed.put("".join(lines))
                lines.clear()
            else:
                lines.append(line)

    def run(self, *words: str) -> str:
        assert self._jvm.stdin is not None
        self._jvm.stdin.write("\t".join(words) + "\n")
        self._jvm.stdin.flush()
        return self._printed.get(timeout=40)

    def close(self) -> None:
        self._jvm.kill()
        self._jvm.wait()


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
    return [dict(zip(header, line, strict=False)) for line in lines[header_at + 1 :] if len(line) >= len(header) - 1]


def offsets(printed: str, column: str) -> dict[int, int]:
    return {int(row["PARTITION"]): int(row[column]) for row in rows(printed)}
