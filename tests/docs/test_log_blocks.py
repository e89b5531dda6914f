"""The log lines in the pages have the loggers, events and fields of those that a server writes."""

import re
from pathlib import Path

from docs.blocks import run_by
from kohort.client.sync import ConsumerGroup, Producer
from kohort.testing.server_process import ServerProcess

LINE = re.compile(
    r"(?P<time>\S+Z) (?P<level>\w+) +(?P<logger>[\w.]+): (?P<event>[a-z ]+?)(?= \w+=)"
)
FIELD = re.compile(r" (\w+)=")


def shape(line: str) -> tuple[str, str, str, list[str]]:
    found = LINE.match(line)
    assert found, line
    return found["level"], found["logger"], found["event"], FIELD.findall(line)


def test_a_server_writes_the_lines_of_the_documentation(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with ServerProcess("--dev", log=log, directory=tmp_path) as server:
        written = [server.line("listening")]
        with Producer(bootstrap=server.bootstrap) as producer:
            producer.send_and_wait("orders", b"first")
        with ConsumerGroup("orders", topics=["orders"], bootstrap=server.bootstrap) as group:
            next(iter(group))
        written.append(server.line("rebalance group="))
    assert [shape(block.code) for block in run_by(__file__)] == [shape(line) for line in written]
