"""No error that something keeps is raised, and none that was caught is kept with its traceback.

Each of the two makes a cycle: error → traceback → frame → what keeps the error. The request
that the frames work on would be in memory until a full collection of garbage. Kept
errors are raised as `fresh` copies; `tests/server/test_refused_memory.py` shows what comes of it.
"""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import kohort
from kohort.client.properties import RefusedOptionsError
from kohort.cluster import FencedError
from kohort.errors import MAX_MESSAGE, ErrorCode, KafkaError, KohortError, caused_by, fresh
from kohort.storage.postgres.errors import DatabaseError

ROOT = Path(kohort.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
CHOOSE = {"next", "min", "max"}
"""Functions that return one of the errors that they are given."""
KEEP = {"append", "add", "appendleft", "setdefault"}


class Finder(ast.NodeVisitor):
    """Collects the lines that break the rule."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self._caught: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        caught, self._caught = self._caught, []
        self.generic_visit(node)
        self._caught = caught

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._caught.append(node.name or "")
        self.generic_visit(node)
        self._caught.pop()

    def visit_Raise(self, node: ast.Raise) -> None:
        if node.exc is not None and any(map(self._is_kept, choices(node.exc))):
            self._add(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(map(self._is_caught, choices(node.value))):
            self._add(node)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """A caught error that is returned, perhaps as the result of a task."""
        if node.value is not None and any(map(self._is_caught, given(node.value))):
            self._add(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        keeps = isinstance(called, ast.Attribute) and called.attr in KEEP
        if keeps and any(map(self._is_caught, node.args)):
            self._add(node)
        self.generic_visit(node)

    def _is_kept(self, raised: ast.expr) -> bool:
        match raised:
            case ast.Name(name):
                return not self._is_caught(raised) and not is_class(name)
            case ast.Attribute(attr=name):
                return not is_class(name)
            case ast.Call(func=ast.Name(name)):
                return name in CHOOSE
        return isinstance(raised, ast.Subscript)

    def _is_caught(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and value.id in self._caught

    def _add(self, node: ast.stmt | ast.expr) -> None:
        self.found.append((node.lineno, ast.unparse(node)))


def choices(value: ast.expr) -> Iterator[ast.expr]:
    """The expressions that a value may be, or that a tuple or list has."""
    match value:
        case ast.IfExp(body=body, orelse=other):
            yield from choices(body)
            yield from choices(other)
        case ast.BoolOp(values=values):
            for each in values:
                yield from choices(each)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for each in elements:
                yield from choices(each)
        case _:
            yield value


def given(value: ast.expr) -> Iterator[ast.expr]:
    """The choices, and the arguments of `dict.fromkeys`."""
    for each in choices(value):
        match each:
            case ast.Call(func=ast.Attribute(attr="fromkeys"), args=arguments):
                yield from arguments
            case _:
                yield each


def is_class(name: str) -> bool:
    plain = name.lstrip("_")
    return plain[:1].isupper() and not plain.isupper()


def lines_of(text: str) -> list[tuple[int, str]]:
    finder = Finder()
    finder.visit(ast.parse(text))
    return sorted(finder.found)


def test_no_module_raises_an_error_that_is_kept() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in FILES
        for line, text in lines_of(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "raise found",
        "raise self.failure",
        "raise failures[0]",
        "raise _IN_USE",
        "raise first or second",
        "raise next(iter(failures))",
        "kept = error",
        "self.failure = error",
        "failure.__cause__ = error",
        "done, kept = (True, error)",
        "errors.append(error)",
        "return error",
        "return (found, error)",
        "return dict.fromkeys(found, error)",
    ],
)
def test_a_line_that_breaks_the_rule(line: str) -> None:
    assert lines_of(f"try:\n    work()\nexcept Exception as error:\n    {line}") == [(4, line)]


@pytest.mark.parametrize(
    "line",
    ["raise error", "raise fresh(found)", "raise KohortError", "raise", "kept = fresh(error)",
     "text = str(error)", "errors.append(error.with_traceback(None))",
     "return error.with_traceback(None)", "return str(error)"],
)  # fmt: skip
def test_a_line_that_keeps_it(line: str) -> None:
    assert lines_of(f"try:\n    work()\nexcept Exception as error:\n    {line}") == []


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.unknown_member_id, "m"),
        FileNotFoundError(2, "No such file", "/data"),
        OSError("a text alone"),
        OSError(None, "a text without a number"),
        DatabaseError(None, "the database does not respond"),
        FencedError("another server"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        RefusedOptionsError(["one", "two"]),
        asyncio.CancelledError("why"),
    ],
)
def test_a_fresh_copy_is_like_its_error(error: BaseException) -> None:
    error.__cause__ = ValueError("why")
    copy = fresh(error)
    assert copy is not error
    assert (type(copy), copy.args, str(copy)) == (type(error), error.args, str(error))
    assert vars(copy) == vars(error)
    assert copy.__cause__ is error.__cause__
    with pytest.raises(type(error)):
        raise copy
    assert error.__traceback__ is None


def test_a_long_message_keeps_its_reason() -> None:
    error = KafkaError(ErrorCode.invalid_request, "a" * 100_000 + " is longer than 10 bytes")
    assert len(error.message) < MAX_MESSAGE + 10
    assert error.message.endswith("a is longer than 10 bytes")


def test_the_cause_of_a_kept_error_tells_where_it_was_raised() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        kept = caused_by(error, KohortError("what"))
    assert isinstance(kept.__cause__, ValueError)
    assert kept.__cause__.__traceback__ is None
    assert "test_the_cause_of_a_kept_error" in kept.__cause__.__notes__[0]
