"""Passes the offsets of a member's micro-batches to a sink, which commits them in its transactions.

Spark tells a sink nothing of its sources. Both have a process on the driver's machine. These share
two files for each transactional id in the directory of temporary files, of which each has one
writer:

    …         the member and the ends of its micro-batch, from the source, before Spark reads it
    ….taken   the token of the last one that was committed, from the sink

The source holds a lock on its file until its process ends. What a source has left that was killed
is therefore not committed, and one query at a time has a transactional id on a machine. The files
are not removed: another source may be about to lock one.
"""

import fcntl
import hashlib
import json
import os
import secrets
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from kohort.client.group_metadata import GroupMetadata
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.types import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_PAUSE_S: Final = 0.1


class SinkOffsets:
    """The source's side."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._path = _path(transactional_id)
        self._file: int | None = None
        self._last: HandedOver | None = None
        """Of the micro-batch that is in flight."""

    def open(self, patience_s: float) -> None:
        """Lock the file, once its last owner has ended, and empty it.

        Raises KohortError after `patience_s`, OSError.
        """
        file = _opened(self._path, os.O_RDWR | os.O_CREAT)
        deadline = time.monotonic() + patience_s
        while not _lock(file, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                os.close(file)
                raise KohortError(
                    f"option transactionalSink: another source of this machine has the sink "
                    f"{self._transactional_id}; a query has one such source, and a "
                    "kafka.transactional.id of its own"
                )
            time.sleep(_PAUSE_S)
        os.ftruncate(file, 0)
        self._file = file

    def hand_over(self, group: GroupMetadata, offsets: Offsets) -> None:
        """Have the sink commit these with the next rows. Raises KohortError if it could not."""
        if not self._path.exists() or not os.path.samestat(os.fstat(self._open), self._path.stat()):
            raise KohortError(f"the file {self._path} was removed, by which the sink gets offsets")
        self._last = HandedOver(self._transactional_id, secrets.token_hex(8), group, offsets)
        self._write(self._last)

    def renew(self, group: GroupMetadata) -> None:
        """The member is in another generation, and still has all partitions."""
        if self._last is not None:
            self._write(replace(self._last, group=group))

    def validate_taken(self) -> None:
        """To be called when a micro-batch has ended. Raises KohortError if it was not committed."""
        if self._last is not None and not self._last.is_taken:
            raise KohortError(
                "a micro-batch has ended, and its offsets are not committed: transactionalSink is "
                f"{self._transactional_id}, so the query needs a sink with "
                "writeStream.format('kohort'), delivery=exactly_once and that "
                "kafka.transactional.id"
            )
        self._last = None

    def _write(self, handed: "HandedOver") -> None:
        offsets = [[*tp, asdict(offset)] for tp, offset in handed.offsets.items()]
        told = {"token": handed.token, "group": asdict(handed.group), "offsets": offsets}
        text = json.dumps(told).encode()
        os.pwrite(self._open, text, 0)
        os.ftruncate(self._open, len(text))

    def close(self) -> None:
        """Another source may have the sink. Idempotent."""
        file, self._file = self._file, None
        if file is not None:
            os.ftruncate(file, 0)
            os.close(file)

    @property
    def _open(self) -> int:
        assert self._file is not None, "not opened"
        return self._file


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What is to be committed with the rows of a micro-batch."""

    transactional_id: str
    token: str
    """Of this micro-batch alone."""
    group: GroupMetadata
    offsets: Offsets

    def take(self) -> None:
        """They are committed."""
        file = _opened(_taken(self.transactional_id), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(file, "w") as opened:
            opened.write(self.token)

    @property
    def is_taken(self) -> bool:
        try:
            with os.fdopen(_opened(_taken(self.transactional_id), os.O_RDONLY)) as opened:
                return opened.read() == self.token
        except FileNotFoundError:
            return False

    def renewed(self, patience_s: float) -> "HandedOver | None":
        """The same of a later generation of the member; None if there is none in that time."""
        deadline = time.monotonic() + patience_s
        while (found := handed(self.transactional_id)) is not None and found.token == self.token:
            if found.group != self.group:
                return found
            if time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE_S)
        return None


def handed(transactional_id: str) -> HandedOver | None:
    """What a source that lives has handed over; None without one, or if all of it is taken."""
    try:
        file = _opened(_path(transactional_id), os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(file) as opened:
        if _lock(file, fcntl.LOCK_SH) or not (text := opened.read()):
            return None
    told = json.loads(text)
    offsets = {
        TopicPartition(topic, partition): OffsetAndMetadata(**offset)
        for topic, partition, offset in told["offsets"]
    }
    found = HandedOver(transactional_id, told["token"], GroupMetadata(**told["group"]), offsets)
    return None if found.is_taken else found


def _path(transactional_id: str) -> Path:
    name = hashlib.sha256(transactional_id.encode()).hexdigest()[:32]
    return Path(tempfile.gettempdir()) / f"kohort-offsets-{os.getuid()}-{name}"


def _taken(transactional_id: str) -> Path:
    return _path(transactional_id).with_suffix(".taken")


def _opened(path: Path, flags: int) -> int:
    """The file, which only this user writes. Raises KohortError, OSError."""
    file = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    if os.fstat(file).st_uid != os.getuid():
        os.close(file)
        raise KohortError(f"the file {path} belongs to another user: remove it")
    return file


def _lock(file: int, how: int) -> bool:
    """Whether nobody holds a lock on the file that is against this one."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
