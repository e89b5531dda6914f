"""The blocks of docs/spark.md, one after the other, as one program against a server with a topic
`orders`.

A query that goes on is ended once it has done what there is. The block with `spark_session` comes
last: it ends the session. A statement of SQL alone is parsed.
"""

import os
import re
import subprocess
import sys

import pytest

from docs.blocks import Block, run_by
from docs.test_code_blocks import REGISTRY
from peers.schema_registry import SchemaRegistryStandIn
from segments.files import Partition
from spark.servers import kohort_only
from spark.streams import PROGRAM_S

pytestmark = [kohort_only, pytest.mark.clients, pytest.mark.timeout(2 * PROGRAM_S)]

END = """
for each in spark.streams.active:
    each.processAllAvailable()
    each.stop()
"""


MOVED = """
written = spark.read.format("kohort").option("kafka.bootstrap.servers", "localhost:9092")
written = written.option("kafka.isolation.level", "read_committed")
print(written.option("subscribe", "totals").load().count())
"""


def program() -> str:
    blocks = run_by(__file__)
    last = [block for block in blocks if "spark_session" in block.code]
    first = [block for block in blocks if block not in last]
    return "".join([*map(part, first), MOVED, *map(part, last)])


def part(block: Block) -> str:
    if block.language == "sql":
        return f"spark._jsparkSession.sessionState().sqlParser().parsePlan({block.code!r})\n"
    return block.code + END if ".start()" in block.code else block.code


def test_the_page_runs_from_top_to_bottom(java, topics, tmp_path):
    topics.create("orders", 4)
    topics.create("totals", 4)
    topics.fill("orders", {partition: [b"%d" % at for at in range(25)] for partition in range(4)})
    Partition(tmp_path / "kafka").fill(0, 10)
    path = tmp_path / "page.py"
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    with SchemaRegistryStandIn() as registry:
        code = program().replace("localhost:9092", topics.address).replace(REGISTRY, registry.url)
        code = code.replace("/var/lib/kafka", str(tmp_path / "kafka"))
        path.write_text(code)
        done = subprocess.run(
            [sys.executable, str(path)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    # The prices are offsets of `orders`, to which other blocks write.
    printed = re.sub(r"max\(price\)=\d+", "max(price)=OFFSET", done.stdout)
    assert re.findall(r"^(\[Row.*|\d+)$", printed, re.MULTILINE) == [
        "[Row(count(1)=100, max(offset)=24)]",
        "100",
        "[Row(min(item)='tea', max(price)=OFFSET)]",
        "4",
        "100",
    ]
