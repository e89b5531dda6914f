"""The file with the leader epochs of a log: `leader-epoch-checkpoint`, by Kafka's name and in its
form (LeaderEpochCheckpointFile):

    0
    2
    0 0
    3 1500

These are the version, the number of epochs, and each epoch with its start offset. A log that was
never led in another epoch than 0 has no such file.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kohort.log.leader_epochs import EpochEntry

NAME: Final = "leader-epoch-checkpoint"
_VERSION: Final = "0"


def encode(entries: Sequence[EpochEntry]) -> bytes:
    """The content of the file."""
    lines = [_VERSION, str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return "".join(f"{line}\n" for line in lines).encode()


def decode(content: bytes) -> tuple[EpochEntry, ...]:
    """The entries, in order. Raises ValueError if that is not what was written."""
    version, count, *lines = content.decode("ascii").splitlines()
    entries = tuple(_entry(*line.split(" ")) for line in lines)
    if version != _VERSION or int(count) != len(entries) or not content.endswith(b"\n"):
        raise ValueError("its version or the number of its epochs is wrong")
    if any(a.epoch >= b.epoch or a.start_offset >= b.start_offset for a, b in pairwise(entries)):
        raise ValueError("its epochs are not in order")
    return entries


def _entry(*numbers: str) -> EpochEntry:
    epoch, start_offset = map(int, numbers)
    if epoch < 0 or start_offset < 0:
        raise ValueError("it has a negative number")
    return EpochEntry(epoch, start_offset)
