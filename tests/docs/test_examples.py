"""Every public class has an example in the docs that the suite runs."""

import ast
import inspect
from importlib import import_module

import pytest

from docs.test_code_blocks import BLOCK, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def used(module: str) -> set[str]:
    """The names of the module that a block imports and then uses."""
    found = set()
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text()):
            tree = ast.parse(block["code"])
            nodes = list(ast.walk(tree))
            imported = {
                name.name
                for node in nodes
                if isinstance(node, ast.ImportFrom) and node.module == module
                for name in node.names
            }
            found |= imported & {node.id for node in nodes if isinstance(node, ast.Name)}
    return found


@pytest.mark.parametrize(
    "module", ["kohort.client", "kohort.client.sync", "kohort.testing", "kohort.spark"]
)
def test_every_public_class_has_an_example(module: str) -> None:
    exports = import_module(module)
    classes = {name for name in exports.__all__ if inspect.isclass(getattr(exports, name))}
    assert classes
    assert classes - used(module) == set()
