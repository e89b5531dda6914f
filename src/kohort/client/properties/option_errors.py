"""Collects the errors of options, so that they are raised as one."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from kohort.errors import ConfigError
from kohort.util.printable import printable

T = TypeVar("T")


class RefusedOptionsError(ConfigError):
    """One or more options are refused; `texts` has a text for each of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        first, *more = self.texts
        super().__init__(
            "\n  ".join((f"{len(self.texts)} options are refused:", *map(printable, self.texts)))
            if more
            else first
        )


class OptionErrors:
    """The refusals of one set of options."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, texts: Iterable[str]) -> None:
        self._texts.extend(texts)

    def of(self, make: Callable[[], T], otherwise: T) -> T:
        """The result of `make`; `otherwise` if it raises ConfigError, whose text is collected."""
        try:
            return make()
        except RefusedOptionsError as error:
            self._texts.extend(error.texts)
        except ConfigError as error:
            self._texts.append(str(error))
        return otherwise

    def end(self) -> None:
        """Raise RefusedOptionsError if there were any."""
        if self._texts:
            raise RefusedOptionsError(self._texts)
