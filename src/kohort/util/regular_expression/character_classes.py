"""What a class of characters holds.

Categories are those of Python's `unicodedata`. `scripts.json` has the scripts of RE2/J 1.8, which
are those of Unicode 6.0: the first code point of a range, the first one after it, and so on.
Letters fold as `(?i)` wants it: by simple folding, which takes one letter to one letter.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final
from unicodedata import category

MAX_CODE_POINT: Final = 0x10FFFF
_CATEGORIES: Final = frozenset(
    letter + detail
    for letter, details in {
        "C": "cfos", "L": "ulmot", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp"
    }.items()
    for detail in details
)  # fmt: skip
"""General categories. `Cn`, of unassigned code points, is none for RE2/J."""
_FOLDING_TO_ASCII: Final = {"k": "\u212a", "s": "\u017f"}


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """Ranges, general categories and other classes; or all characters but those."""

    bounds: tuple[int, ...] = ()
    """First code point of a range, first one after it, and so on in ascending order."""
    categories: frozenset[str] = frozenset()
    parts: tuple["CharacterClass", ...] = ()
    negated: bool = False

    def holds(self, variants: str) -> bool:
        """Whether it has one of these characters: one alone, or all that fold to the same."""
        found = (
            any(bisect_right(self.bounds, ord(each)) % 2 for each in variants)
            or any(category(each) in self.categories for each in variants)
            or any(part.holds(variants) for part in self.parts)
        )
        return found is not self.negated


def new_class(
    ranges: Iterable[tuple[int, int]],
    parts: Iterable[CharacterClass] = (),
    *,
    negated: bool = False,
) -> CharacterClass:
    """A class with these ranges, whose ends belong to them."""
    bounds: list[int] = []
    for first, last in sorted(ranges):
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], last + 1)
        else:
            bounds += first, last + 1
    return CharacterClass(tuple(bounds), parts=tuple(dict.fromkeys(parts)), negated=negated)


@lru_cache(1_024)
def variants(char: str) -> str:
    """The characters that fold to the same letter as this one."""
    folded = _folded(char)
    candidates = {char, folded, *char.upper(), *char.lower(), *folded.upper(), *char.title()}
    candidates.update(_FOLDING_TO_ASCII.get(folded, ""))
    return "".join(sorted(each for each in candidates if _folded(each) == folded))


def _folded(char: str) -> str:
    for folded in (char.casefold(), char.lower()):
        if len(folded) == 1:
            return folded
    return char


@lru_cache(64)
def unicode_class(name: str) -> CharacterClass | None:
    """The class of a general category, a group of them or a script, None if there is no such."""
    if name == "Any":
        return CharacterClass((0, MAX_CODE_POINT + 1))
    if (script := _scripts().get(name)) is not None:
        return CharacterClass(script)
    known = _CATEGORIES if len(name) == 1 else _CATEGORIES & {name}
    categories = frozenset(each for each in known if each.startswith(name))
    return CharacterClass(categories=categories) if categories and name else None


@cache
def _scripts() -> dict[str, tuple[int, ...]]:
    stored = json.loads(Path(__file__).with_name("scripts.json").read_text())
    return {name: tuple(bounds) for name, bounds in stored.items()}


def _ascii(*ranges: str) -> CharacterClass:
    return new_class((ord(each[0]), ord(each[-1])) for each in ranges)


DIGITS: Final = _ascii("09")
SPACES: Final = _ascii("\t\n", "\f\r", " ")
WORDS: Final = _ascii("09", "AZ", "az", "_")
NO_NEWLINE: Final = CharacterClass((10, 11), negated=True)
ALL: Final = CharacterClass(negated=True)
ASCII_CLASSES: Final = {
    "alnum": _ascii("09", "AZ", "az"),
    "alpha": _ascii("AZ", "az"),
    "ascii": _ascii("\0\x7f"),
    "blank": _ascii("\t", " "),
    "cntrl": _ascii("\0\x1f", "\x7f"),
    "digit": DIGITS,
    "graph": _ascii("!~"),
    "lower": _ascii("az"),
    "print": _ascii(" ~"),
    "punct": _ascii("!/", ":@", "[`", "{~"),
    "space": _ascii("\t\r", " "),
    "upper": _ascii("AZ"),
    "word": WORDS,
    "xdigit": _ascii("09", "AF", "af"),
}
