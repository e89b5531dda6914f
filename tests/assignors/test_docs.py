"""The code in docs/assignors.md runs."""

from typing import Any

from docs.blocks import run_by


def test_every_block_runs() -> None:
    names: dict[str, Any] = {"__name__": "docs"}
    for block in run_by(__file__):
        exec(compile(block.code, str(block), "exec"), names)
    assert names["planned"].moved == 1
