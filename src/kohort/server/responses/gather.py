"""Several questions, one answer: what a request about many groups waits for."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any


class Gather:
    """Hands out one callback per question; calls `finished` with all answers, in the order of the
    questions.

    Answers may come in any order, also while questions are still being asked: `seal` says that
    there are no more.
    """

    def __init__(self, finished: Callable[[Sequence[Any]], None]) -> None:
        self._finished = finished
        self._answers: list[Any] = []
        self._missing = 1  # until sealed

    def question(self) -> Callable[[Any], None]:
        """A callback that takes one answer."""
        self._missing += 1
        self._answers.append(None)
        return partial(self._take, len(self._answers) - 1)

    def seal(self) -> None:
        """No more questions: with none, or all answered, `finished` is called now."""
        self._arrived()

    def _take(self, index: int, answer: Any) -> None:
        self._answers[index] = answer
        self._arrived()

    def _arrived(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._finished(self._answers)
