"""The file of a recording: JSON Lines, written event by event.

    {"kohort_recording":1,"redacts_values":false,"crc":"…"}
    {"at":0.002,"event":"opened","connection":1,"node":null,"crc":"…"}
    {"at":0.002,"event":"request","connection":1,"api":"JoinGroup v9", …,"frame":"base64","crc":"…"}
    {"at":0.009,"event":"response","connection":1,"frame":"base64","crc":"…"}

Each line is handed to the operating system when its event happens, so the recording of a killed
process ends with its last event, or within it. `crc` is the CRC-32C of the line before it: a
damaged line is found, not replayed. The reader holds one line in memory.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from crc32c import crc32c

from kohort.errors import KohortError
from kohort.recording.events import (
    Advanced,
    Closed,
    Event,
    Opened,
    RecordedRequest,
    RecordedResponse,
)
from kohort.recording.frames import api_text

VERSION: Final = 1
MAX_LINE_BYTES: Final = 512 * 1024 * 1024
"""Bytes of a line: more than a frame of 256 MiB in base64."""

_CRC: Final = b',"crc":"'
_KINDS: Final[dict[str, type[Any]]] = {
    "opened": Opened,
    "request": RecordedRequest,
    "response": RecordedResponse,
    "closed": Closed,
    "advanced": Advanced,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class RecordingError(KohortError):
    """A recording cannot be written or read; the text says what to do."""


class RecordingWriter:
    """Writes a new file. Not to be used by several threads at once."""

    def __init__(self, path: Path, *, redacts_values: bool) -> None:
        """Create the file. Raises RecordingError if it exists or cannot be written."""
        self.path = path
        try:
            self._file: BinaryIO = path.open("xb", buffering=0)
        except FileExistsError:
            raise RecordingError(f"{path} exists: delete it, or record to another file") from None
        except OSError as error:
            raise RecordingError(f"{path} cannot be written: {error.strerror}") from error
        self._write(
            {
                "kohort_recording": VERSION,
                "redacts_values": redacts_values,
            }
        )

    def add(self, event: Event) -> None:
        """Append an event. Raises RecordingError."""
        values = asdict(event)
        if values.get("frame") is not None:
            values["frame"] = b64encode(values["frame"]).decode()
        head = {"at": round(values.pop("at"), 6), "event": _NAMES[type(event)]}
        if isinstance(event, RecordedRequest):  # for the human reader
            head["api"] = api_text(event.api_key, event.version)
        self._write({**head, **values})

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    def _write(self, values: dict[str, Any]) -> None:
        text = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
        line = memoryview(b'%b%b%08x"}\n' % (text, _CRC, crc32c(text)))
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise RecordingError(f"{self.path} cannot be written: {error.strerror}") from error


class RecordingReader:
    """Reads a file, in a `with` block."""

    def __init__(self, path: Path | str) -> None:
        """Open it. Raises RecordingError."""
        self.path = Path(path)
        self.line = 1
        """Number of the line of the latest event."""
        self.is_truncated = False
        """Whether the last event is incomplete and was left out; known when all are read."""
        try:
            self._file = self.path.open("rb")
        except OSError as error:
            raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
        try:
            self._read_head()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Event]:
        """The remaining events. Raises RecordingError at a damaged line."""
        while line := self._read_line():
            self.line += 1
            if not line.endswith(b"\n"):  # of a process that was killed, or a copy that was cut
                self.is_truncated = True
                return
            yield self._event(self._values(line))

    def _read_head(self) -> None:
        try:
            head = self._values(self._read_line())
            version = head["kohort_recording"]
            self.redacts_values = bool(head["redacts_values"])
            """Whether keys and values of records were replaced."""
        except (RecordingError, KeyError):
            raise RecordingError(
                f"{self.path} is no recording: the first line of one of `kohort record` or "
                "kafka.record() has the field kohort_recording"
            ) from None
        if version != VERSION:
            raise RecordingError(
                f"{self.path} has the format {version} of recordings, and this version of Kohort "
                f"reads {VERSION}: replay it with the version that recorded it"
            )

    def _read_line(self) -> bytes:
        try:
            line = self._file.readline(MAX_LINE_BYTES)
        except OSError as error:
            raise RecordingError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(line) == MAX_LINE_BYTES:
            raise self._damaged("it is longer than any event")
        return line

    def _values(self, line: bytes) -> dict[str, Any]:
        text, separator, end = line.rpartition(_CRC)
        if not separator or end.removesuffix(b"\n") != b'%08x"}' % crc32c(text):
            raise self._damaged("its checksum is wrong")
        values: dict[str, Any] = json.loads(text + b"}")
        return values

    def _event(self, values: dict[str, Any]) -> Event:
        try:
            kind = _KINDS[values.pop("event")]
            if values.get("frame") is not None:
                values["frame"] = b64decode(values["frame"], validate=True)
            names = {field.name for field in fields(kind)}
            event: Event = kind(**{name: value for name, value in values.items() if name in names})
        except (KeyError, TypeError, Base64Error) as error:
            raise self._damaged(f"it is no event ({error})") from error
        return event

    def _damaged(self, why: str) -> RecordingError:
        return RecordingError(
            f"{self.path}: line {self.line} is damaged, {why}. Copy the file again, or replay the "
            f"events before it: head -n {self.line - 1} {self.path.name} > undamaged.jsonl"
        )
