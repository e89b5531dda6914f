"""The files of one log, named as Kafka's: `<base offset, 20 digits>.log`, `.index`, `.timeindex`.

The directory also has `checkpoint` (start offset and the like) and `producers` (a snapshot), each
replaced as a whole. Names that end in `.cleaned`, `.swap`, `.deleted` or `.new` are of unfinished
work, which `recovery` completes or removes.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

from kohort.log.backing import Checkpoint
from kohort.log.durability import sync_all
from kohort.log.index import SegmentIndex
from kohort.log.segment import Segment
from kohort.log.storage import FileStore, OpenFiles

LOG, INDEX, TIMEINDEX = ".log", ".index", ".timeindex"
CLEANED, SWAP, DELETED, NEW = ".cleaned", ".swap", ".deleted", ".new"
CHECKPOINT, PRODUCERS = "checkpoint", "producers"


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020}{suffix}"


def open_segment(
    directory: str,
    base_offset: int,
    size: int,
    files: OpenFiles,
    interval: int = 4096,
    ending: str = "",
) -> Segment:
    """The segment with that base offset, of `size` bytes; no file is opened yet. Raises OSError."""

    def store(suffix: str, size: int) -> FileStore:
        return FileStore(segment_path(directory, base_offset, suffix + ending), size, files)

    def indexed(suffix: str) -> FileStore:
        return store(
            suffix, _size(segment_path(directory, base_offset, suffix + ending)) if size else 0
        )

    return Segment(
        base_offset, store(LOG, size), SegmentIndex(indexed(INDEX), indexed(TIMEINDEX)), interval
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def replace_file(path: str, content: bytes, *, durable: bool) -> None:
    """Make `content` the content of the file, whole or not at all. Raises OSError."""
    fd = os.open(path + NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(fd, content)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(path + NEW, path)


def read_file(path: str) -> bytes:
    """Its content, b"" if there is none. Raises OSError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return "".join(f"{name} {value}\n" for name, value in checkpoint._asdict().items()).encode()


def decode_checkpoint(content: bytes) -> Checkpoint:
    """Decode the content of a checkpoint file, ignoring lines that cannot be read."""
    known: dict[str, int] = {}
    for line in content.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        if name in Checkpoint._fields and value.isdecimal():
            known[name] = int(value)
    return Checkpoint(**known)


class FileBacking:
    """A log in a directory of its own."""

    __slots__ = (
        "_durable",
        "_executor",
        "_files",
        "_has_new_names",
        "_on_failure",
        "_path",
        "_recovery_point",
        "_syncing",
    )

    def __init__(
        self,
        path: str,
        files: OpenFiles,
        executor: Executor,
        recovery_point: int,
        *,
        durable: bool,
        on_failure: Callable[[], None],
    ) -> None:
        """Keep the log in `path`.

        With `durable`, files are synced before they replace others. `on_failure` is called when the
        disk refused an operation.
        """
        self._path = path
        self._files = files
        self._executor = executor
        self._durable = durable
        self._on_failure = on_failure
        self._recovery_point = recovery_point
        self._has_new_names = True
        self._syncing: deque[tuple[int, Future[None]]] | None = None

    def new_segment(self, base_offset: int, interval: int) -> Segment:
        self._has_new_names = True
        return open_segment(self._path, base_offset, 0, self._files, interval)

    def sealed(self, segment: Segment) -> None:
        """Sync it in the background, so that a crash of the machine does not damage it."""
        path = segment.log.file()
        if path is not None:
            if self._syncing is None:
                self._syncing = deque()
            self._syncing.append((segment.end_offset, self._executor.submit(sync_all, (path,))))

    def unsynced_names(self) -> list[str]:
        if not self._has_new_names:
            return []
        self._has_new_names = False
        return [self._path, os.path.dirname(self._path)]

    def recovery_point(self) -> int:
        while self._syncing and self._syncing[0][1].done():
            end_offset, sync = self._syncing[0]
            if sync.exception() is not None:
                self._on_failure()
                # the file stays: the files that follow are not contiguous with those on the disk
                break
            self._syncing.popleft()
            self._recovery_point = end_offset
        return self._recovery_point

    def discard(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            segment.close()
            self._remove(segment.base_offset)

    def _remove(self, base_offset: int) -> None:
        # Freeing a large file takes the file system milliseconds; a rename does not.
        for suffix in (TIMEINDEX, INDEX, LOG):
            path = segment_path(self._path, base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, path + DELETED)
                self._executor.submit(os.unlink, path + DELETED)

    def save(self, checkpoint: Checkpoint) -> None:
        replace_file(
            f"{self._path}/{CHECKPOINT}", encode_checkpoint(checkpoint), durable=self._durable
        )

    def save_producers(self, snapshot: bytes) -> None:
        replace_file(f"{self._path}/{PRODUCERS}", snapshot, durable=False)

    def load_producers(self) -> bytes:
        return read_file(f"{self._path}/{PRODUCERS}")

    def compaction_target(self, base_offset: int) -> Segment:
        for suffix in (LOG, INDEX, TIMEINDEX):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(segment_path(self._path, base_offset, suffix + CLEANED))
        return open_segment(self._path, base_offset, 0, OpenFiles(), ending=CLEANED)

    def replace(self, old: Sequence[Segment], new: Segment) -> Segment:
        base_offset, end_offset = old[0].base_offset, old[-1].end_offset
        cleaned = segment_path(self._path, base_offset, LOG + CLEANED)
        swap = swap_path(self._path, base_offset, end_offset)
        size, modified = new.size, new.modified
        new.close()
        # from here on the compacted segment counts; see recovery.finish_swap
        os.rename(cleaned, swap)
        if self._durable:
            sync_all((self._path,))
        for segment in old:
            segment.close()
            self._remove(segment.base_offset)
        for suffix in (INDEX, TIMEINDEX):
            path = segment_path(self._path, base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path + CLEANED, path)
        os.rename(swap, segment_path(self._path, base_offset, LOG))
        segment = open_segment(self._path, base_offset, size, self._files)
        segment.end_offset, segment.modified = end_offset, modified
        return segment


def swap_path(directory: str, base_offset: int, end_offset: int) -> str:
    """The compacted segment that takes the place of all from `base_offset` up to `end_offset`."""
    return f"{directory}/{base_offset:020}-{end_offset:020}{SWAP}"
