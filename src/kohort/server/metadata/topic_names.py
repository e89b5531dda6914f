"""Which names a topic may have (Kafka's Topic class)."""

import re
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.metadata.records import METADATA

MAX_NAME_LENGTH: Final = 249
"""A directory name of 255 bytes, less a dash and the digits of a partition."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL: Final = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
"""Topics that clients do not write to, and whose names in a Metadata request do not create them."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def validate_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION, with Kafka's text, for an invalid name."""
    if not name:
        raise _invalid("the empty string is not allowed")
    if name in (".", ".."):
        raise _invalid(f"'{name}' is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise _invalid(
            f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )
    if not _LEGAL.fullmatch(name):
        raise _invalid(
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', "
            "'_' and '-'"
        )


def validate_creatable(name: str) -> None:
    """Raises KafkaError INVALID_TOPIC_EXCEPTION or INVALID_REQUEST if clients may not create it."""
    validate_name(name)
    if name == METADATA.topic:
        raise KafkaError(
            ErrorCode.invalid_request, (f"Creation of internal topic {name} is prohibited.")
        )


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {why}")
