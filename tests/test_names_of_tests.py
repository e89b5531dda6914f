"""Names of tests: a list of failures shows the name alone, so it has to state the rule."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOMS = sorted({path.relative_to(HERE).parts[0] for path in HERE.glob("*/**/test_*.py")})
FEWEST_WORDS = 3
"""Two words name a subject without what holds of it."""
NO_SUBJECT = """
it its they their them this that these those such there we
what whatever who whoever whose whom which where how why
nobody nothing everybody everything anybody anything somebody something others
is are was were has have had do does did can may must not never so of
and or but also unless whether wherever by for to with
"""
"""Words that begin a name whose subject is elsewhere: in the class, the module or the head."""


def is_vague(name: str) -> bool:
    words = name.removeprefix("test_").split("_")
    return len(words) < FEWEST_WORDS or words[0] in NO_SUBJECT.split()


def vague_names(room: str) -> list[str]:
    return [
        f"{path.relative_to(HERE)}: {node.name}"
        for path in sorted((HERE / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
        if is_vague(node.name)
    ]


@pytest.mark.parametrize(
    "name",
    ["test_errors", "test_are_limited", "test_never_needed", "test_what_is_not_does_not"],
)
def test_a_name_without_a_subject_is_vague(name: str) -> None:
    assert is_vague(name)


def test_a_name_with_a_subject_is_not_vague() -> None:
    assert not is_vague("test_the_last_of_two_offsets_wins")


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_in_a_room_states_its_rule(room: str) -> None:
    assert vague_names(room) == []
