"""Opens, locks, reads and changes the directory of a history."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from kohort.errors import ConfigError, KohortError
from kohort.history.schema import STORED_TABLES
from kohort.history_files.file_system import TEMPORARY, Files
from kohort.history_files.snapshot import RetiredFile, Snapshot, StoredFile, StoredState

MARKER: Final = "_history.json"
LOCK: Final = "_lock"
SNAPSHOTS: Final = "_batches"
STATES: Final = "state"
CHECKPOINT: Final = "_checkpoint"
"""Of `follow`: Spark's checkpoint."""
FORMAT: Final = b'{"format": 1}\n'
KEPT_SNAPSHOTS: Final = 10
RETIRED_MS: Final = {STATES: 15 * 60_000}
"""Directory → how long replaced files stay for readers that planned before."""
RETIRED_DEFAULT_MS: Final = 60 * 60_000
ATTEMPTS: Final = 5
"""Of reading the newest snapshot, which ever newer ones may replace meanwhile."""
_SNAPSHOT: Final = re.compile(r"(\d{12})\.json")


class HistoryDirectory:
    """A history on disk, for readers."""

    def __init__(self, files: Files) -> None:
        """Raises ConfigError if this is not the directory of a history."""
        self.files = files
        try:
            marker = files.read(MARKER)
        except OSError:
            reason = "it is empty" if not files.names() else f"it has no {MARKER}"
            raise ConfigError(
                f"{files.location}: is not the directory of a history: {reason}; "
                "kohort history build creates one"
            ) from None
        _validate_format(marker, files.location)

    def snapshot(self) -> Snapshot:
        """The newest snapshot; an empty one before the first batch. Raises KohortError."""
        for _ in range(ATTEMPTS):
            numbers = self._numbers()
            if not numbers:
                return Snapshot()
            path = _path(numbers[-1])
            try:
                return Snapshot.from_json(self.files.read(path), f"{self.files.location}/{path}")
            except FileNotFoundError:
                continue
        raise KohortError(f"{self.files.location}: its snapshots change too fast to be read")

    def _numbers(self) -> list[int]:
        matches = map(_SNAPSHOT.fullmatch, self.files.names(SNAPSHOTS))
        return sorted(int(found[1]) for found in matches if found is not None)


class WritableHistory(HistoryDirectory):
    """A history that this process alone writes, by `opened_for_writing`."""

    def __init__(self, files: Files, now_ms: int) -> None:
        super().__init__(files)
        for table in (*STORED_TABLES, STATES, SNAPSHOTS):
            files.make_directory(table)
        self._current = self.snapshot()
        self.remove_leftovers(now_ms)

    @property
    def current(self) -> Snapshot:
        """The newest snapshot."""
        return self._current

    def add_batch(
        self,
        files: Sequence[StoredFile],
        states: Mapping[int, StoredState],
        now_ms: int,
        *,
        cluster: str | None = None,
        topic_id: str | None = None,
    ) -> Snapshot:
        """Make the files of a batch visible; their data and names are durable."""
        before = self._current
        replaced = {
            stored.state
            for number, stored in before.log_partitions.items()
            if number in states and stored.state != states[number].state
        }
        return self.replace(
            replace(
                before,
                cluster=cluster or before.cluster,
                topic_id=topic_id or before.topic_id,
                log_partitions={**before.log_partitions, **states},
                files=(*before.files, *files),
            ),
            [path for path in replaced if path is not None],
            now_ms,
        )

    def add_files(self, files: Sequence[StoredFile], now_ms: int) -> Snapshot:
        """Make files visible that no log partition has, such as those of samples."""
        current = self._current
        return self.replace(replace(current, files=(*current.files, *files)), (), now_ms)

    def add_findings(self, files: Sequence[StoredFile], now_ms: int) -> Snapshot:
        """Make files of findings visible, which were looked for in all records up to now."""
        current = self._current
        return self.replace(
            replace(current, files=(*current.files, *files), searched=current.ends()), (), now_ms
        )

    def replace(self, snapshot: Snapshot, retired: Sequence[str], now_ms: int) -> Snapshot:
        """Make `snapshot` the newest one, with the next id. `retired` are files it does not name.

        Removes files that were retired long ago.
        """
        expired = [file for file in snapshot.retired if _is_expired(file, now_ms)]
        kept = [file for file in snapshot.retired if file not in expired]
        following = replace(
            snapshot,
            id=self._current.id + 1,
            retired=(*kept, *(RetiredFile(path, now_ms) for path in sorted(retired))),
        )
        self.files.publish(_path(following.id), following.to_json())
        self._current = following
        for file in expired:
            self.files.remove(file.path)
        for number in self._numbers()[:-KEPT_SNAPSHOTS]:
            self.files.remove(_path(number))
        return following

    def remove_leftovers(self, now_ms: int) -> None:
        """Remove the files that no snapshot names: a build was killed while it wrote them.

        No task may be writing.
        """
        named = self._current.paths()
        for path in self._existing():
            if path not in named and self.files.is_leftover(path, now_ms):
                self.files.remove(path)

    def _existing(self) -> Iterator[str]:
        """All files of tables and states, and temporary ones of snapshots."""
        for table in STORED_TABLES:
            yield from (f"{table}/{name}" for name in self.files.names(table))
        for number in self.files.names(STATES):
            directory = f"{STATES}/{number}"
            yield from (f"{directory}/{name}" for name in self.files.names(directory))
        for name in self.files.names(SNAPSHOTS):
            if name.endswith(TEMPORARY):
                yield f"{SNAPSHOTS}/{name}"


@contextmanager
def opened_for_writing(files: Files, now_ms: int) -> Iterator[WritableHistory]:
    """A history that no other build writes meanwhile; it is created in an empty directory.

    Raises LockedError; ConfigError if the directory has files of something else; OSError.
    """
    names = set(files.names())
    if MARKER not in names and (others := sorted(names - _BEFORE_MARKER)):
        raise ConfigError(
            f"{files.location}: has files of something else ({others[0]}); a history needs an "
            "empty directory, or its own"
        )
    files.make_directory("")
    with files.locked(LOCK):
        if MARKER not in files.names():
            files.publish(MARKER, FORMAT)
        yield WritableHistory(files, now_ms)


_BEFORE_MARKER: Final = frozenset({LOCK, f"{MARKER}{TEMPORARY}"})
"""Files that a build may leave that was killed before it wrote the marker."""


def _path(number: int) -> str:
    return f"{SNAPSHOTS}/{number:012}.json"


def _is_expired(file: RetiredFile, now_ms: int) -> bool:
    directory = file.path.partition("/")[0]
    return now_ms - file.at_ms > RETIRED_MS.get(directory, RETIRED_DEFAULT_MS)


def _validate_format(marker: bytes, location: str) -> None:
    if marker.strip() != FORMAT.strip():
        raise ConfigError(
            f"{location}: {MARKER} is of another version of Kohort, or damaged: "
            f"{marker[:80].decode(errors='replace')!r}; build the history into another directory"
        )
