"""The code in docs/assignors.md runs."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "assignors.md"


def test_every_block_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    names: dict[str, Any] = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert names["planned"].moved == 1
