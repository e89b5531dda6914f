"""The words of the glossary are those of the code."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src" / "kohort"
GLOSSARY: Final = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in GLOSSARY.splitlines()
    if line.startswith("| ") and not line.startswith("| term |")
]
ALL_CODE: Final = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted(SOURCES.rglob("*.py"))
)
WORDS: Final = {*re.findall(r"[-\w]+", ALL_CODE)}
PATHS: Final = {
    path.relative_to(SOURCES).as_posix() + ("/" if path.is_dir() else "")
    for path in SOURCES.rglob("*")
}


def is_there(word: str) -> bool:
    """Whether a name, a module or a directory of the glossary is one of the code."""
    if word.endswith(("/", ".py")):
        return any(path == word or path.endswith(f"/{word}") for path in PATHS)
    return {*re.findall(r"[-\w]+", word)} <= WORDS or (SOURCES / word).is_dir()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_term_has_a_meaning_and_names_that_are_there(row: list[str]) -> None:
    term, meaning, names = row
    assert term
    assert meaning
    missing = [word for word in re.findall(r"`([^`]+)`", names) if not is_there(word)]
    assert [word for word in missing if not (ROOT / word).exists()] == []


def test_no_term_comes_twice() -> None:
    terms = [row[0] for row in ROWS]
    assert len({*terms}) == len(terms) >= 60


def test_a_name_that_is_gone_is_noticed() -> None:
    assert not is_there("gone_by_now.py")
    assert not is_there("Gone" + "ByNow")
