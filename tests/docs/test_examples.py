"""Every public class has an example in the docs that the suite runs."""

import ast
import inspect
from importlib import import_module

import pytest

from docs.blocks import blocks, runners


def used(module: str) -> set[str]:
    """The names of the module that a block imports and then uses."""
    found = set()
    for block in blocks():
        if block.language != "python" or not runners(block):
            continue
        nodes = list(ast.walk(ast.parse(block.code)))
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
