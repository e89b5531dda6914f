"""Errors of a source in Spark's messages: the cause alone, without a traceback before it.

PySpark hands an exception of a Python process to Spark as text, a traceback of up to forty lines
whose last line has the cause. `SPARK_HIDE_TRACEBACK` has it hand over that line alone
(`pyspark.util.handle_worker_exception`). It reads the variable once the exception has reached it,
and then ends the process, so what this sets concerns no other exception. One that is no
KohortError is a bug, and keeps its traceback.
"""

import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isfunction
from typing import Any, Final, TypeVar

from kohort.errors import KohortError
from kohort.spark.logs import log_to_stderr

C = TypeVar("C", bound=type)

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
IN_SPARK: Final = "SPARK_BUFFER_SIZE"
"""Variable that Spark sets for each of its Python processes, and a driver does not have."""

logger: Final = logging.getLogger("kohort.spark")


def cause_first(source: C) -> C:
    """Have Spark's messages show the cause of a KohortError that a method of `source` raises.

    That is for all public methods that the class itself defines. The level DEBUG logs tracebacks.
    """
    for name, method in list(vars(source).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(source, name, _shown(method))
    return source


def _shown(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def shown(*arguments: Any, **options: Any) -> Any:
        with _showing():
            found = method(*arguments, **options)
        return _each(found) if isinstance(found, Iterator) else found

    return shown


def _each(items: Iterator[Any]) -> Iterator[Any]:
    """What a task yields: it may raise at any item."""
    with _showing():
        yield from items


@contextmanager
def _showing() -> Iterator[None]:
    try:
        yield
    except KohortError:
        if IN_SPARK in os.environ:
            os.environ.setdefault(HIDE_TRACEBACK, "1")
            log_to_stderr()
            logger.debug("an error for Spark", exc_info=True)
        raise
