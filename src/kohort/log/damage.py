"""Damage in a log that is no torn tail, and the error that refuses to serve it.

A torn tail is what a process that died in the middle of a write leaves: the end of the last
segment, with no valid batch behind it. It is cut off when the log is opened. Anything else that is
not as it was written is damage: a valid batch lies behind it, or a segment ends before the next one
begins. Cutting it off would lose records that are still there, so a log that is found damaged is
not served, and nothing in it is changed. `kohort repair` shows what it would cut, and does it.
"""

import os
from dataclasses import dataclass

from kohort.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One place where a log is not as it was written."""

    file: str
    position: int
    """Byte in `file` from which on it is not valid."""
    offset: int
    """Offset that the next valid record would have had there."""
    what: str
    """The damage, as a clause."""

    def __str__(self) -> str:
        return f"{self.file} is damaged at byte {self.position}, offset {self.offset}: {self.what}"


class CorruptLogError(KafkaError):
    """A log is damaged, and clients get KAFKA_STORAGE_ERROR.

    The text names file, position and offset, and the ways out.
    """

    def __init__(self, damage: Damage) -> None:
        partition = os.path.dirname(damage.file)
        super().__init__(
            ErrorCode.kafka_storage_error,
            f"{damage}. Nothing was changed. Stop the server and restore the file from a backup, "
            f"or run `kohort repair {os.path.dirname(partition) or '.'} "
            f"{os.path.basename(partition)}`, which shows what it would cut and does it with "
            "--execute",
        )
        self.damage = damage

    def __str__(self) -> str:
        return self.message


class OpeningStoppedError(Exception):
    """The server had to end while it checked its logs."""
