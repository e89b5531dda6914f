"""Matches texts with the automaton of an expression.

It is Glushkov's: its states are the positions of the expression, each a class of characters or an
assertion. A set of positions is an int. What may follow a position is kept as pairs of sets, one
pair for each concatenation and repetition: after each of the first set each of the second may come.
Most pairs are a position and the next one, which a shift of all of them does.

A text is read by a DFA that is made on the way: a set of positions for each set and character that
was met. It is forgotten when it has grown to the limit of memory.
"""

from collections.abc import Generator, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

from kohort.util.regular_expression.character_classes import WORDS, variants
from kohort.util.regular_expression.errors import RegularExpressionError
from kohort.util.regular_expression.syntax import (
    Assertion,
    Characters,
    Operation,
    Operator,
)

MAX_MEMORY: Final = 1 << 20
"""Bytes of the pairs of an expression, and of its DFA."""
_PER_STATE: Final = 400
"""Bytes that a state of the DFA takes beside its set."""
_MAX_ASSERTED: Final = 100_000
"""Assertions of an expression, multiplied with its pairs."""
_WORK_PER_STEP: Final = 4_096
"""Pairs that are followed in a step: a millisecond or less."""

_Operand: TypeAlias = tuple[bool, int, int]
"""Whether a part of the expression matches the empty text, and its first and last positions."""


class _Kind(Enum):
    """What assertions know of the characters beside them."""

    BEGIN = 0
    END = 1
    NEWLINE = 2
    WORD = 3
    OTHER = 4


class _State:
    """A state of the DFA: positions that were passed, and what the last character was."""

    __slots__ = ("following", "is_end", "kind", "passed")

    def __init__(self, passed: int, kind: _Kind) -> None:
        self.passed = passed
        self.kind = kind
        self.following: dict[str, _State] = {}
        self.is_end: bool | None = None
        """Whether a text that ends here matches; None: not known yet."""


class Automaton:
    """The automaton of an expression, with what is known of its DFA."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Raises RegularExpressionError if it is too large."""
        self._literals: dict[str, int] = {}
        self._classes: dict[Characters, int] = {}
        self._assertions: dict[Assertion, int] = {}
        self._next = 0
        """Positions after which the next one may come."""
        self._pairs: dict[int, int] = {}
        """Positions → those after which they may come."""
        self._positions = 1  # the first one is the beginning of the text
        self._last = self._build(operations)
        self._all_assertions = sum(self._assertions.values())  # disjoint sets
        if self._all_assertions.bit_count() * len(self._pairs) > _MAX_ASSERTED:
            raise RegularExpressionError("too large: too many assertions")
        self._masks: dict[str, int] = {}
        self._states: dict[tuple[int, _Kind], _State] = {}
        self._max_transitions = MAX_MEMORY // (_PER_STATE + self._positions // 8)
        self._transitions = 0

    def _build(self, operations: Sequence[Operation]) -> int:
        """Fill the tables; the positions with which a text may end."""
        operands: list[_Operand] = [(False, 1, 1)]
        for operation in operations:
            if isinstance(operation, Operator):
                self._apply(operation, operands)
            elif operation is None:
                operands.append((True, 0, 0))
            else:
                position = 1 << self._positions
                self._positions += 1
                of_kind = self._positions_of(operation)
                of_kind[operation] = of_kind.get(operation, 0) | position
                operands.append((False, position, position))
        self._check_size()
        begin, expression = operands
        return self._concatenated(begin, expression)[2]

    def _apply(self, operator: Operator, operands: list[_Operand]) -> None:
        if operator is Operator.CONCATENATE or operator is Operator.ALTERNATE:
            right, left = operands.pop(), operands.pop()
            combine = self._concatenated if operator is Operator.CONCATENATE else _either
            operands.append(combine(left, right))
        else:
            is_empty, first, last = operands.pop()
            if operator is not Operator.OPTIONAL:
                self._follow(last, first)
            operands.append((is_empty or operator is not Operator.PLUS, first, last))

    def _positions_of(self, operation: str | Characters | Assertion) -> dict[Any, int]:
        if isinstance(operation, str):
            return self._literals
        return self._classes if isinstance(operation, Characters) else self._assertions

    def _concatenated(self, left: _Operand, right: _Operand) -> _Operand:
        (is_empty, first, last), (is_right_empty, right_first, right_last) = left, right
        self._follow(last, right_first)
        return (
            is_empty and is_right_empty,
            first | right_first if is_empty else first,
            last | right_last if is_right_empty else right_last,
        )

    def _follow(self, last: int, first: int) -> None:
        """Have each of `first` follow each of `last`."""
        if last.bit_count() == 1 and first == last << 1:
            self._next |= last
        elif last and first:
            self._pairs[first] = self._pairs.get(first, 0) | last
            self._check_size()

    def _check_size(self) -> None:
        if len(self._pairs) * self._positions // 4 > MAX_MEMORY:
            raise RegularExpressionError("too large: too many repetitions and alternatives")

    def _followers(self, positions: int) -> int:
        following = (positions & self._next) << 1
        for first, last in self._pairs.items():
            if positions & last:
                following |= first
        return following

    def steps(self, text: str) -> Generator[None, None, bool]:
        """Whether all of the text matches, in steps of a millisecond or so."""
        work, state = 0, self._state(1, _Kind.BEGIN)
        for char in text:
            following = state.following.get(char)
            if following is None:
                following = self._read(state, char)
                work += 64 + len(self._pairs) + len(self._classes)
                if work > _WORK_PER_STEP:
                    work = 0
                    yield
            state = following
            if not state.passed:
                return False
        if state.is_end is None:
            state.is_end = bool(self._at_boundary(state, _Kind.END)[0] & self._last)
        return state.is_end

    def _state(self, passed: int, kind: _Kind) -> _State:
        state = self._states.get((passed, kind))
        if state is None:
            state = self._states[passed, kind] = _State(passed, kind)
        return state

    def _read(self, state: _State, char: str) -> _State:
        if self._transitions >= self._max_transitions:
            self._forget()
        self._transitions += 1
        kind = _kind_of(char) if self._all_assertions else _Kind.OTHER
        _, reached = self._at_boundary(state, kind)
        following = self._state(reached & self._mask(char), kind)
        state.following[char] = following
        return following

    def _forget(self) -> None:
        for each in self._states.values():
            each.following.clear()  # they refer to each other
        self._states.clear()
        self._masks.clear()
        self._transitions = 0

    def _at_boundary(self, state: _State, kind: _Kind) -> tuple[int, int]:
        """What is passed before the next character, of this kind, and what may come then."""
        passed, reached = state.passed, self._followers(state.passed)
        if reached & self._all_assertions:
            true = self._true_assertions(state.kind, kind)
            while new := reached & true & ~passed:
                passed |= new
                reached |= self._followers(new)
        return passed, reached

    def _true_assertions(self, before: _Kind, after: _Kind) -> int:
        at_word = (before is _Kind.WORD) is not (after is _Kind.WORD)
        true = {
            Assertion.BEGIN: before is _Kind.BEGIN,
            Assertion.END: after is _Kind.END,
            Assertion.BEGIN_LINE: before in (_Kind.BEGIN, _Kind.NEWLINE),
            Assertion.END_LINE: after in (_Kind.END, _Kind.NEWLINE),
            Assertion.WORD_BOUNDARY: at_word,
            Assertion.NO_WORD_BOUNDARY: not at_word,
        }
        return sum(mask for each, mask in self._assertions.items() if true[each])

    def _mask(self, char: str) -> int:
        """The positions that this character may have."""
        mask = self._masks.get(char)
        if mask is None:
            mask = self._literals.get(char, 0)
            folded = variants(char)
            for characters, positions in self._classes.items():
                if characters.of.holds(folded if characters.folds else char):
                    mask |= positions
            self._masks[char] = mask
        return mask


def _either(left: _Operand, right: _Operand) -> _Operand:
    return left[0] or right[0], left[1] | right[1], left[2] | right[2]


def _kind_of(char: str) -> _Kind:
    if char == "\n":
        return _Kind.NEWLINE
    return _Kind.WORD if WORDS.holds(char) else _Kind.OTHER
