"""Imports by name, which no contract of import-linter sees: none may hide a circle of rooms.

A module that imports another one by a string depends on it all the same. Such an import stays in
its own room or goes to a lower one, or nothing of the target is used but names for a text.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ROOT / "src" / "kohort"
FUNCTIONS: Final = {"__import__", "exec_module", "import_module", "run_module"}
ARGUED: Final = {
    "assignors/__init__.py": "public names of its own room",
    "cli/app.py": "the module of a verb, of its own room",
    "cli/completion.py": "the module of a verb, of its own room",
    "cli/subcommands.py": "the module of a verb of groups or of the history, of its own room",
    "client/__init__.py": "public names of its own room",
    "client/schema_registry.py": "confluent-kafka, of an extra",
    "columnar/numba_compiler.py": "modules whose functions it compiles, of its own room",
    "protocol/message_classes.py": "the message classes of an API, of kio and of its own room",
    "segments/__init__.py": "public names of its own room",
    "server/handlers/modules.py": "the handler of an API, of its own room",
    "spark/pipeline.py": "delta, which only the format of this name needs",
    "spark/startup/sitecustomize.py": "the module of this name that it hides",
    "testing/__init__.py": "public names of its own room",
    "util/kio.py": "kio, without a library that it imports and does not use",
    "util/missing_names.py": "the public names of other packages, for the hint of an error",
}
"""File → what it imports by name."""


def imports_by_name(source: str) -> Iterator[int]:
    """Lines that import a module by a string, or hand such a function on."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) if name in FUNCTIONS:
                yield node.lineno


def test_each_file_that_imports_by_name_is_argued() -> None:
    found = {
        path.relative_to(SOURCES).as_posix(): lines
        for path in SOURCES.rglob("*.py")
        if (lines := [*imports_by_name(path.read_text(encoding="utf-8"))])
    }
    assert {name: found[name] for name in found.keys() - ARGUED.keys()} == {}
    assert found.keys() >= ARGUED.keys(), "argued, and gone"


@pytest.mark.parametrize(
    "line",
    [
        "importlib.import_module('kohort.server.handlers.forwarding')",
        "from importlib import import_module; import_module('kohort.server')",
        "to_thread(importlib.import_module, 'kohort.server')",
        "__import__('kohort.server')",
    ],
)
def test_imports_by_name_are_found(line: str) -> None:
    assert [*imports_by_name(line)]


def test_an_import_statement_is_left_to_the_contracts() -> None:
    assert not [*imports_by_name("from importlib import import_module\nfrom kohort import server")]


def modules_of_programs() -> Iterator[tuple[str, str]]:
    """(file, module of Kohort) of each import in programs that neither mypy nor pytest reads.

    Some of them are text in another program.
    """
    for directory in (".ci", "fuzz", "interop", "tests/interop/clients"):
        for path in filter(Path.is_file, (ROOT / directory).iterdir()):
            for module in re.findall(r"from (kohort(?:\.\w+)*) import", path.read_text("utf-8")):
                yield f"{directory}/{path.name}", module


def test_modules_that_other_programs_import_are_there() -> None:
    found = [*modules_of_programs()]
    assert len(found) > 20
    places = {each: ROOT / "src" / Path(*each[1].split(".")) for each in found}
    assert [
        each
        for each, path in places.items()
        if not (path.is_dir() or path.with_suffix(".py").exists())
    ] == []
