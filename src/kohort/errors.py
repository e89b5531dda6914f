"""What can go wrong, by Kafka's names.

`ErrorCode` is kio's enumeration of Kafka's wire errors (`ErrorCode.unknown_member_id`); an
exception that ends up in a response is a `KafkaError` and carries its code.
"""

from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

__all__ = ["ConfigError", "ErrorCode", "KafkaError", "KohortError", "unless_error"]

T = TypeVar("T")


class KohortError(Exception):
    """Base of every error that Kohort raises on purpose; its text says what to do."""


class ConfigError(KohortError):
    """A configuration name or value that is refused; the text names the nearest valid one."""


MAX_MESSAGE: Final = 8_000
"""Characters of a message that go to a client: a string of Kafka's has at most 32,767 bytes."""


class KafkaError(KohortError):
    """An error with a wire code, for the response to the client that caused it.

    A message that repeats a very long text of the client is cut.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}…"
        super().__init__(f"{code.name.upper()}{': ' + message if message else ''}")
        self.code = code
        self.message = message


def unless_error(outcome: T | KohortError) -> T:
    """The outcome of one of many requests. Raises it if it is an error."""
    if isinstance(outcome, KohortError):
        raise outcome
    return outcome
