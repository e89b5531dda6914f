"""The blocks of docs/spark.md, one after the other, as one program against a server with a topic
`orders`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.test_code_blocks import BLOCK
from spark.servers import kohort_only

pytestmark = [kohort_only, pytest.mark.clients]

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_page_runs_from_top_to_bottom(java, topics, tmp_path):
    topics.create("orders", 4)
    topics.fill("orders", {partition: [b"%d" % at for at in range(25)] for partition in range(4)})
    code = "".join(found["code"] for found in BLOCK.finditer(PAGE.read_text()))
    program = tmp_path / "page.py"
    program.write_text(code.replace("localhost:9092", topics.address))
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(program)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.findall(r"^(\[Row.*|\d+)$", done.stdout, re.MULTILINE) == [
        "[Row(count(1)=100, max(offset)=24)]",
        "100",
        "4",
    ]
