r"""Parses the syntax of RE2/J to operations on a stack of operands.

    a(b|c)+   →   a, b, c, ALTERNATE, PLUS, CONCATENATE

Counted repetition repeats the operations of its operand. Nothing here calls itself, so groups may
be nested as deep as they like.
"""

import re
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kohort.util.regular_expression import character_classes as classes
from kohort.util.regular_expression.character_classes import CharacterClass, variants
from kohort.util.regular_expression.errors import RegularExpressionError

MAX_COUNT: Final = 1_000
"""In `{n,m}`."""
MAX_COPIED: Final = 16_384
"""Operations that the counted repetitions of an expression write."""


class Operator(Enum):
    """Takes one or two operands from the stack, and puts one there."""

    CONCATENATE = 2
    ALTERNATE = 3
    STAR = 4
    PLUS = 5
    OPTIONAL = 6


class Assertion(Enum):
    """A place between characters."""

    BEGIN = 1
    END = 2
    BEGIN_LINE = 3
    END_LINE = 4
    WORD_BOUNDARY = 5
    NO_WORD_BOUNDARY = 6


class Characters(NamedTuple):
    """One character of a class."""

    of: CharacterClass
    folds: bool
    """Whether upper and lower case do not count."""


Operation: TypeAlias = Operator | str | Characters | Assertion | None
"""An operator or an operand: a character, one of several, an assertion; None is the empty text."""


class _Group:
    """A group that is parsed, or the whole expression."""

    __slots__ = ("alternatives", "flags", "is_joined", "last", "start")

    def __init__(self, flags: frozenset[str], start: int) -> None:
        self.flags = flags
        """Those in force."""
        self.start = start
        """Where it begins in the expression."""
        self.alternatives = 0
        """How many are complete."""
        self.last: int | None = None
        """Where the operations of the last operand begin, in the alternative that is parsed."""
        self.is_joined = False
        """Whether that alternative has operands before the last one."""


_COUNT: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_NAMED: Final = re.compile(r"\?P?<([A-Za-z0-9_]+)>")
_FLAGS: Final = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])")
_HEX: Final = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})")
_OCTAL: Final = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_UNICODE: Final = re.compile(r"[pP](?:\{(\^?)([^}]*)\}|([^{]))", re.DOTALL)
_NAMED_CLASS: Final = re.compile(r"\[:(\^?)(.*?):\]", re.DOTALL)
_IS_RANGE: Final = re.compile(r"-[^\]]", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SETS: Final = {"d": classes.DIGITS, "s": classes.SPACES, "w": classes.WORDS}
_ASSERTIONS: Final = {
    "A": Assertion.BEGIN,
    "z": Assertion.END,
    "b": Assertion.WORD_BOUNDARY,
    "B": Assertion.NO_WORD_BOUNDARY,
}
_SPECIAL: Final = frozenset("+*?{()|\\[.^$")
_QUANTIFIERS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(regex: str) -> list[Operation]:
    """The operations of an expression, which leave one operand. Raises RegularExpressionError."""
    return _Parser(regex).parse()


class _Parser:
    """Writes operations as it reads.

    An operand is concatenated with those before it when the next one begins: an operator of
    repetition may come first.
    """

    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._at = 0
        self._operations: list[Operation] = []
        self._group = _Group(frozenset(), 0)
        self._outer: list[_Group] = []
        self._names: set[str] = set()
        self._copied = 0

    def parse(self) -> list[Operation]:
        regex = self._regex
        while self._at < len(regex):
            char = regex[self._at]
            if char not in _SPECIAL:
                self._at += 1
                self._add(self._literal(char))
                continue
            match char:
                case "*" | "+" | "?":
                    self._quantify(self._at + 1, *_QUANTIFIERS[char])
                case "{" if count := _COUNT.match(regex, self._at):
                    self._count(count)
                case "(":
                    self._open()
                case ")":
                    self._close()
                case "|":
                    self._end_alternative()
                    self._at += 1
                case "\\":
                    self._escape()
                case "[":
                    self._add(self._class())
                case _:
                    self._at += 1
                    self._add(self._plain(char))
        if self._outer:
            raise RegularExpressionError(f"missing closing ): {regex[self._group.start :]}")
        self._end_alternative()
        return self._operations

    def _begin_operand(self) -> None:
        group = self._group
        if group.last is not None:
            if group.is_joined:
                self._operations.append(Operator.CONCATENATE)
            group.is_joined = True
        group.last = len(self._operations)

    def _add(self, operand: Operation) -> None:
        operations = self._operations
        is_alone = self._group.last == len(operations) - 1
        if is_alone and isinstance(operand, Assertion) and operations[-1] is operand:
            return  # ^^ is ^
        self._begin_operand()
        operations.append(operand)

    def _end_alternative(self) -> None:
        group = self._group
        if group.last is None:
            self._operations.append(None)
        elif group.is_joined:
            self._operations.append(Operator.CONCATENATE)
        if group.alternatives:
            self._operations.append(Operator.ALTERNATE)
        group.alternatives += 1
        group.last, group.is_joined = None, False

    def _plain(self, char: str) -> Operation:
        flags = self._group.flags
        match char:
            case ".":
                return Characters(classes.ALL if "s" in flags else classes.NO_NEWLINE, False)
            case "^":
                return Assertion.BEGIN_LINE if "m" in flags else Assertion.BEGIN
            case "$":
                return Assertion.END_LINE if "m" in flags else Assertion.END
        return self._literal(char)

    def _literal(self, char: str) -> Operation:
        if "i" in self._group.flags and len(variants(char)) > 1:
            return self._characters(classes.new_class([(ord(char), ord(char))]))
        return char

    def _characters(self, of: CharacterClass) -> Characters:
        return Characters(of, "i" in self._group.flags)

    # --- repetition ---

    def _count(self, count: re.Match[str]) -> None:
        least, has_comma, most = count.groups()
        highest = least if not has_comma else most or least
        # The lengths first: Python converts no more than some thousands of digits.
        if max(len(least), len(highest)) > 4 or not int(least) <= int(highest) <= MAX_COUNT:
            raise RegularExpressionError(f"invalid repeat count: {count[0]}")
        self._quantify(count.end(), int(least), None if has_comma and not most else int(highest))

    def _quantify(self, end: int, least: int, most: int | None) -> None:
        """Repeat the last operand; `end`: where the operator ends, without `?`."""
        regex, last = self._regex, self._group.last
        operator = regex[self._at : end]
        if last is None:
            raise RegularExpressionError(f"missing argument to repetition operator: {operator}")
        end += regex[end : end + 1] == "?"  # lazy: the same texts match
        if regex[end : end + 1] in ("*", "+", "?") or _COUNT.match(regex, end):
            operators = regex[self._at : end + 1]
            raise RegularExpressionError(f"invalid nested repetition operator: {operators}")
        self._repeat(last, least, most)
        self._at = end

    def _repeat(self, start: int, least: int, most: int | None) -> None:
        """Repeat the operand whose operations begin at `start`."""
        operations = self._operations
        if most == 0:
            operations[start:] = [None]
        elif operations[-1] is not Operator.STAR:  # (x*)*, (x*)+ and (x*){3,7} are x*
            if operations[-1] is Operator.OPTIONAL:  # (x?){3,7} is x{0,7}
                operations.pop()
                least = 0
            if most is None and least < 2:
                operations.append(Operator.PLUS if least else Operator.STAR)
            elif most != 1:
                operand = operations[start:]
                copies = least if most is None else most
                self._copied += (len(operand) + 2) * copies
                if self._copied > MAX_COPIED:
                    raise RegularExpressionError("too large: too many repetitions")
                operations[start:] = _copies(operand, least, most)
            elif not least:
                operations.append(Operator.OPTIONAL)

    # --- groups ---

    def _open(self) -> None:
        regex, start = self._regex, self._at
        self._at += 1
        flags = self._group.flags
        if regex[self._at : self._at + 1] == "?":
            if named := _NAMED.match(regex, self._at):
                if named[1] in self._names:
                    raise RegularExpressionError(f"duplicate capture group name: {named[1]}")
                self._names.add(named[1])
                self._at = named.end()
            elif changed := _FLAGS.match(regex, self._at):
                self._at = changed.end()
                flags = (flags | set(changed[1])) - set(changed[2] or "")
                if changed[3] == ")":
                    self._group.flags = flags
                    return
            else:
                raise RegularExpressionError(
                    f"invalid perl operator, or invalid group: {regex[start : start + 20]}"
                )
        self._begin_operand()
        self._outer.append(self._group)
        self._group = _Group(flags, start)

    def _close(self) -> None:
        if not self._outer:
            raise RegularExpressionError(f"unexpected ): {self._regex[self._at :][:20]}")
        self._end_alternative()
        self._group = self._outer.pop()
        self._at += 1

    # --- escapes ---

    def _escape(self) -> None:
        """Parse an escape outside of a class."""
        regex, char = self._regex, self._regex[self._at + 1 : self._at + 2]
        if char == "Q":
            start = self._at + 2
            end = regex.find("\\E", start)
            self._at = len(regex) if end < 0 else end + 2
            for quoted in regex[start : len(regex) if end < 0 else end]:
                self._add(self._literal(quoted))
        elif char in _ASSERTIONS:
            self._at += 2
            self._add(_ASSERTIONS[char])
        elif (of := self._set()) is not None:
            self._add(self._characters(of))
        else:
            self._add(self._literal(self._escaped()))

    def _set(self) -> CharacterClass | None:
        r"""Parse `\d` or `\pL` and their like, None if there is none."""
        regex, char = self._regex, self._regex[self._at + 1 : self._at + 2]
        if char.lower() in _SETS and char:
            self._at += 2
            found, negated = _SETS[char.lower()], char.isupper()
        elif char in ("p", "P"):
            match = _UNICODE.match(regex, self._at + 1)
            name = None if match is None else match[3] or match[2]
            known = None if name is None else classes.unicode_class(name)
            if match is None or known is None:
                raise RegularExpressionError(
                    f"invalid character class range: {regex[self._at :][:20]}"
                )
            self._at = match.end()
            found, negated = known, (char == "P") is not bool(match[1])
        else:
            return None
        return classes.new_class((), [found], negated=True) if negated else found

    def _escaped(self) -> str:
        """Parse an escape that stands for one character."""
        regex, start = self._regex, self._at + 1
        char = regex[start : start + 1]
        if not char:
            raise RegularExpressionError("trailing backslash at end of expression: \\")
        if octal := _OCTAL.match(regex, start):
            self._at = octal.end()
            return chr(int(octal[0], 8))
        if char == "x" and (digits := _HEX.match(regex, start + 1)):
            number = int(digits[1] or digits[2], 16)
            if number <= classes.MAX_CODE_POINT:
                self._at = digits.end()
                return chr(number)
        elif char in _CONTROLS or not (char.isascii() and char.isalnum()):
            self._at += 2
            return _CONTROLS.get(char, char)
        raise RegularExpressionError(f"invalid escape sequence: \\{char}")

    # --- classes ---

    def _class(self) -> Characters:
        """Parse `[…]`."""
        regex, start = self._regex, self._at
        self._at += 1
        negated = regex[self._at : self._at + 1] == "^"
        self._at += negated
        first, ranges, parts = self._at, list[tuple[int, int]](), list[CharacterClass]()
        while self._at == first or regex[self._at : self._at + 1] != "]":
            if self._at >= len(regex):
                raise RegularExpressionError(f"missing closing ]: {regex[start:][:20]}")
            if (part := self._named_class() or self._set_in_class()) is not None:
                parts.append(part)
            else:
                ranges.append(self._range())
        self._at += 1
        return self._characters(classes.new_class(ranges, parts, negated=negated))

    def _set_in_class(self) -> CharacterClass | None:
        return self._set() if self._regex[self._at] == "\\" else None

    def _named_class(self) -> CharacterClass | None:
        named = _NAMED_CLASS.match(self._regex, self._at)
        if named is None:
            return None
        found = classes.ASCII_CLASSES.get(named[2])
        if found is None:
            raise RegularExpressionError(f"invalid character class range: {named[0]}")
        self._at = named.end()
        return classes.new_class((), [found], negated=True) if named[1] else found

    def _range(self) -> tuple[int, int]:
        regex, start = self._regex, self._at
        first = last = self._class_character()
        if regex[self._at : self._at + 1] == "-" and regex[self._at + 1 : self._at + 2] not in (
            "",
            "]",
        ):
            self._at += 1
            last = self._class_character()
        if last < first:
            raise RegularExpressionError(
                f"invalid character class range: {regex[start : self._at]}"
            )
        return ord(first), ord(last)

    def _class_character(self) -> str:
        char = self._regex[self._at]
        if char == "\\":
            return self._escaped()
        self._at += 1
        return char


def _copies(operand: list[Operation], least: int, most: int | None) -> list[Operation]:
    """`operand{least,most}` as copies of its operations; `least` of 2 if there is no `most`."""
    copies: list[Operation] = []
    for at in range(least):
        copies += operand
        if most is None and at == least - 1:
            copies.append(Operator.PLUS)
        if at:
            copies.append(Operator.CONCATENATE)
    if most is not None and most > least:  # x{0,3} is (x(x(x)?)?)?
        copies += operand * (most - least)
        copies.append(Operator.OPTIONAL)
        copies += [Operator.CONCATENATE, Operator.OPTIONAL] * (most - least - 1)
        if least:
            copies.append(Operator.CONCATENATE)
    return copies
