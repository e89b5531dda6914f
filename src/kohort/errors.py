"""What can go wrong, by Kafka's names.

`ErrorCode` is kio's enumeration of Kafka's wire errors (`ErrorCode.unknown_member_id`); an exception that
ends up in an answer is a `KafkaError` and carries its code.
"""

from kio.schema.errors import ErrorCode

__all__ = ["ConfigError", "ErrorCode", "KafkaError", "KohortError"]


class KohortError(Exception):
    """Base of every error that Kohort raises on purpose; its text says what to do."""


class ConfigError(KohortError):
    """A configuration name or value that is refused; the text names the nearest valid one."""


class KafkaError(KohortError):
    """An error with a wire code, to be answered to the client that caused it."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name.upper()}{': ' + message if message else ''}")
        self.code = code
        self.message = message
