"""docs/guarantees.md: each promise names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<promise>[^|]+) \| (?P<tests>`[^|]+) \| (?P<limit>[^|]*)\|$", re.MULTILINE
)
TEST = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")
TABLE = re.compile(r"^\| promise \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
LINKED_FROM = ("README.md", "docs/client.md", "docs/operations.md", "docs/spark.md")


def test_each_promise_is_attacked() -> None:
    rows = [row for table in TABLE.findall(PAGE) for row in table.splitlines()]
    assert len(rows) > 30
    assert [row for row in rows if not (found := ROW.match(row)) or not TEST.search(found[2])] == []


@pytest.mark.parametrize(("file", "name"), sorted(set(TEST.findall(PAGE))))
def test_each_test_exists(file: str, name: str) -> None:
    path = ROOT / "tests" / file
    assert path.is_file(), file
    if name:
        functions = {
            node.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, f"{file} has no {name}"


@pytest.mark.parametrize("page", LINKED_FROM)
def test_pages_that_promise_refer_to_it(page: str) -> None:
    assert re.search(r"\((docs/)?guarantees\.md", (ROOT / page).read_text(encoding="utf-8"))
