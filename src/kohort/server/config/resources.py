"""Resource types of configs, from Kafka's ConfigResource."""

import unicodedata
from collections.abc import Collection
from enum import IntEnum
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.config.definition import INT_MAX

_INT_DIGITS: Final = len(str(INT_MAX))
_LAST_OF_ONE_CHAR: Final = "\uffff"
"""Java looks at each UTF-16 unit alone, and half of a digit is none."""


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def validate_broker_id(
    name: str, node_ids: Collection[int], expected: str, *, noun: str = "Broker"
) -> None:
    """Raise KafkaError INVALID_REQUEST unless `name` is one of the ids, or as `expected` says.

    Kafka's text for what is no integer begins with "Broker" where configs are described
    (ConfigHelper), with "Node" where they are altered (ConfigAdminManager).
    """
    number = java_int(name)
    if number is None:
        raise KafkaError(
            ErrorCode.invalid_request, f"{noun} id must be an integer, but it is: {name}"
        )
    if number not in node_ids:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {expected} but received {name}",
        )


def java_int(text: str) -> int | None:
    """The number that Java's Integer.parseInt reads; None if it refuses the text.

    It takes a sign and the digits of every script, as many as there are.
    """
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not digits.isdecimal() or max(digits) > _LAST_OF_ONE_CHAR:
        return None
    ascii_digits = "".join(str(unicodedata.decimal(digit)) for digit in digits).lstrip("0")
    if len(ascii_digits) > _INT_DIGITS:
        return None
    number = int(f"{sign}{ascii_digits or '0'}")
    return number if -INT_MAX - 1 <= number <= INT_MAX else None
