"""A JVM with Kafka's classes, for the tests of a module."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import pytest

from peers import kafka


class Jvm(Protocol):
    def close(self) -> None: ...


_Jvm = TypeVar("_Jvm", bound=Jvm)


def running(start: Callable[[], _Jvm]) -> Iterator[_Jvm]:
    """Yield a JVM and close it; skip the tests where Java or Kafka's JARs cannot be had."""
    if (reason := kafka.missing_tools()) is not None:
        pytest.skip(reason)
    try:
        jvm = start()
    except kafka.KafkaUnavailableError as error:
        pytest.skip(str(error))
    yield jvm
    jvm.close()
