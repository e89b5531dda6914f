"""Errors of a source in Spark's messages: the cause alone, without a traceback before it.

PySpark passes an exception of a Python process to Spark as text, a traceback of up to forty lines
whose last line has the cause. With `SPARK_HIDE_TRACEBACK` it passes only that line
(`pyspark.util.handle_worker_exception`). It reads the variable when it handles the exception, and
then ends the process, so setting it affects no other exception. Exceptions other than KohortError
are bugs, and keep their traceback.
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
"""Variable that Spark sets in each of its Python processes, but not in a driver."""

logger: Final = logging.getLogger("kohort.spark")


def cause_first(source: C) -> C:
    """Have Spark's messages show the cause of a KohortError that a method of `source` raises.

    Wraps all public methods that the class itself defines. The level DEBUG logs tracebacks.
    """
    for name, method in list(vars(source).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(source, name, _with_cause_first(method))
    return source


def _with_cause_first(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        with _hiding_traceback():
            result = method(*arguments, **options)
        return _items(result) if isinstance(result, Iterator) else result

    return wrapper


def _items(items: Iterator[Any]) -> Iterator[Any]:
    """The items of a task, each of which may raise."""
    with _hiding_traceback():
        yield from items


@contextmanager
def _hiding_traceback() -> Iterator[None]:
    try:
        yield
    except KohortError:
        if IN_SPARK in os.environ:
            os.environ.setdefault(HIDE_TRACEBACK, "1")
            log_to_stderr()
            logger.debug("an error for Spark", exc_info=True)
        raise
