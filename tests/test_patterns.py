"""Regular expressions of the package: what Python 3.11.0 to 3.11.4 match wrongly is not used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kohort

SOURCES = Path(kohort.__file__).parent
# New in Python 3.11, and wrong before 3.11.5 where the repeated group has a lookahead or captures.
POSSESSIVE = re.compile(r"(?<!\\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>")


def strings_of(source: str) -> Iterator[str]:
    """The string constants of a module that imports `re`, docstrings left out."""
    tree = ast.parse(source)
    if not any(isinstance(node, ast.Import) and node.names[0].name == "re" for node in tree.body):
        return
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield text


def test_no_pattern_has_a_possessive_quantifier_or_an_atomic_group() -> None:
    modules = list(SOURCES.rglob("*.py"))
    assert len(modules) > 500
    found = {
        module.relative_to(SOURCES).as_posix(): text
        for module in modules
        for text in strings_of(module.read_text("utf-8"))
        if POSSESSIVE.search(text)
    }
    assert not found


@pytest.mark.parametrize("pattern", [r"(?:a|b)*+", r"[a-z]++", r"x{1,2}+", r"(?>a)", r"a?+b"])
def test_possessive_patterns_are_found(pattern: str) -> None:
    assert POSSESSIVE.search(pattern)


@pytest.mark.parametrize("pattern", [r"\++", r"[a-z/+]+", r"\d{4}-", r"a(?:b)c"])
def test_others_are_not(pattern: str) -> None:
    assert not POSSESSIVE.search(pattern)
