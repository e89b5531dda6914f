"""What can go wrong, by Kafka's names.

`ErrorCode` is kio's enumeration of Kafka's wire errors (`ErrorCode.unknown_member_id`); an
exception that ends up in a response is a `KafkaError` and carries its code.
"""

import traceback
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

__all__ = [
    "ConfigError",
    "ErrorCode",
    "KafkaError",
    "KohortError",
    "caused_by",
    "fresh",
    "unless_error",
]

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class KohortError(Exception):
    """Base of every error that Kohort raises on purpose; its text says what to do."""


class ConfigError(KohortError):
    """A configuration name or value that is refused; the text names the nearest valid one."""


MAX_MESSAGE: Final = 8_000
"""Characters of a message that go to a client: a string of Kafka's has at most 32,767 bytes."""
END_OF_MESSAGE: Final = 1_000
"""Characters at the end of a longer one that go to it: the reason often follows what is refused."""


class KafkaError(KohortError):
    """An error with a wire code, for the response to the client that caused it.

    A message that repeats a very long text of the client is cut in the middle.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE - END_OF_MESSAGE]} … {message[-END_OF_MESSAGE:]}"
        super().__init__(f"{code.name.upper()}{': ' + message if message else ''}")
        self.code = code
        self.message = message


def unless_error(outcome: T | KohortError) -> T:
    """The outcome of one of many requests. Raises it if it is an error."""
    if isinstance(outcome, KohortError):
        raise fresh(outcome)
    return outcome


def fresh(error: E) -> E:
    """A copy of an error that something keeps, to be raised instead of it.

    What is raised collects a traceback, and the traceback keeps the frames that were left, with the
    request in them. If a frame, or anything that it refers to, keeps the error, that is a cycle:
    only a full collection of garbage would free it. And each `raise` of one error adds to its
    traceback. The copy is kept by nobody.
    """
    kind = type(error)
    copy: E = kind.__new__(kind, *error.args)
    built_in = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    built_in.__init__(copy, *error.args)  # type: ignore[misc]  # sets fields that are in no __dict__
    copy.args = error.args
    for name in ("filename", "filename2"):  # OSError's, which are not in its args either
        if getattr(error, name, None) is not None:
            setattr(copy, name, getattr(error, name))
    vars(copy).update(vars(error))
    copy.__cause__, copy.__suppress_context__ = error.__cause__, error.__suppress_context__
    return copy


def caused_by(cause: BaseException, error: E) -> E:
    """`error` with its cause, for something to keep.

    A note says where the cause was raised, instead of a traceback that would keep those frames.
    """
    cause.add_note("".join(traceback.format_tb(cause.__traceback__)).rstrip())
    error.__cause__ = cause.with_traceback(None)
    return error
