"""The files of one log, named as Kafka's: `<base offset, 20 digits>.log`, `.index`, `.timeindex`,
and `.txnindex` where transactions were aborted.

The directory also has `checkpoint` (the log's name, start offset and the like), `producers` (a
snapshot) and maybe `leader-epoch-checkpoint`, each replaced as a whole. A file of these whose name
ends in `.cleaned`, `.swap`, `.deleted` or `.new` is of unfinished work, which `recovery` completes
or removes.
"""

import contextlib
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from threading import Lock

from crc32c import crc32c

from kohort.errors import ErrorCode, KafkaError
from kohort.log import leader_epoch_checkpoint
from kohort.log.aborted_index import TXNINDEX
from kohort.log.backing import Checkpoint
from kohort.log.durability import rewrite, rewrite_end, sync_all, write_whole
from kohort.log.health import DiskHealth, Sync
from kohort.log.index import OFFSET_ROW, SegmentIndex
from kohort.log.leader_epochs import EpochEntry
from kohort.log.quarantine import keep_whole
from kohort.log.segment import Segment
from kohort.log.stores import LOG_SUFFIX, PRIVATE, FileStore, OpenFile, OpenFiles, size_of
from kohort.protocol.batches import Buffer

logger = logging.getLogger("kohort.log")

LOG, INDEX, TIMEINDEX = LOG_SUFFIX, ".index", ".timeindex"
INDEXES = (TIMEINDEX, INDEX, TXNINDEX)
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
    latest_epoch: int = 0,
) -> Segment:
    """The segment with that base offset, of `size` bytes; no file is opened yet. Raises OSError."""
    start = f"{directory}/{base_offset:020}"

    def index(suffix: str) -> FileStore:
        path = start + suffix + ending
        return FileStore(path, size_of(path) if size else 0, files)

    log = FileStore(start + LOG + ending, size, files, latest_epoch)
    return Segment(base_offset, log, SegmentIndex(index(INDEX), index(TIMEINDEX)), interval)


def last_index_row(directory: str, base_offset: int) -> tuple[int, int] | None:
    """The last row of a segment's index, (relative offset, position); None if it has none.

    Raises OSError.
    """
    path = segment_path(directory, base_offset, INDEX)
    with open(path, "rb") as file:
        rows = os.fstat(file.fileno()).st_size // OFFSET_ROW.size
        if not rows:
            return None
        file.seek((rows - 1) * OFFSET_ROW.size)
        offset, position = OFFSET_ROW.unpack(file.read(OFFSET_ROW.size))
    return offset, position


def replace_file(path: str, content: Buffer, *, durable: bool) -> None:
    """Make `content` the content of the file, whole or not at all. Raises OSError."""
    fd = os.open(path + NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    try:
        write_whole(fd, content)
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


def encode_checkpoint(checkpoint: Checkpoint, log: str) -> bytes:
    """The content of the file; `log` is the name of the log's directory."""
    lines = {name: getattr(checkpoint, name) for name in _OFFSETS} | {_LOG: log}
    content = "".join(f"{name} {value}\n" for name, value in lines.items()).encode()
    return content + _checksum(content)


def store_checkpoint(directory: str, checkpoint: Checkpoint, *, durable: bool) -> None:
    """Replace the checkpoint of the log in `directory`, whole or not at all. Raises OSError."""
    content = encode_checkpoint(checkpoint, os.path.basename(directory))
    replace_file(f"{directory}/{CHECKPOINT}", content, durable=durable)


def decode_checkpoint(content: bytes) -> Checkpoint:
    """What `encode_checkpoint` wrote; without a checksum, what of it can be read.

    Raises ValueError if it is not what was written.
    """
    written, marker, checksum = content.rpartition(_CHECKSUM)
    if not marker:
        written = content
        if not content.endswith(b"\n"):
            raise ValueError("its end is missing")
    elif _checksum(written) != marker + checksum:
        raise ValueError("the checksum is not that of the checkpoint")
    offsets = dict.fromkeys(_OFFSETS, 0)
    for line in written.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        if name in offsets and value.isdecimal():
            offsets[name] = int(value)
    return Checkpoint(offsets["start_offset"], offsets["recovery_point"], offsets["cleaned"])


def load_checkpoint(directory: str, log: str | None) -> Checkpoint:
    """The checkpoint of the log in `directory`.

    A broken one is kept aside and read as if there were none: records before the start offset come
    back, and more is checked. Raises KafkaError KAFKA_STORAGE_ERROR if it is that of another log
    than `log`, unless that is None; OSError.
    """
    path = f"{directory}/{CHECKPOINT}"
    content = read_file(path)
    try:
        checkpoint = decode_checkpoint(content)
    except ValueError as error:
        kept = keep_whole(path)
        logger.warning(
            "%s is invalid (%s): the log starts at its first segment; the file is kept as %s",
            path, error, kept,
        )  # fmt: skip
        return Checkpoint()
    log_line = _LOG_LINE.search(content)
    if log is not None and log_line and log_line[1].decode() != log:
        raise KafkaError(
            ErrorCode.kafka_storage_error,
            f"the directory {log} has the log of {log_line[1].decode()}, as its file {CHECKPOINT} "
            "says; nothing in it was changed. Stop the server and give the directories their own "
            "names again",
        )
    return checkpoint


def _checksum(content: bytes) -> bytes:
    return _CHECKSUM + b"%08x\n" % crc32c(content)


_OFFSETS = ("start_offset", "recovery_point", "cleaned")
_CHECKSUM = b"crc32c "
_LOG = "log"
_LOG_LINE = re.compile(rb"^log ([!-~]+)$", re.MULTILINE)


def store_epochs(directory: str, entries: Sequence[EpochEntry], *, durable: bool) -> None:
    """Store the leader epochs of the log in `directory` in their file. Raises OSError."""
    path = f"{directory}/{leader_epoch_checkpoint.NAME}"
    content = leader_epoch_checkpoint.encode(entries)
    if content != read_file(path):
        replace_file(path, content, durable=durable)


def load_epochs(directory: str) -> tuple[EpochEntry, ...]:
    """The leader epochs of the log in `directory`, as its file has them.

    A broken file is read as if there were none: the batches tell as much. Raises OSError.
    """
    path = f"{directory}/{leader_epoch_checkpoint.NAME}"
    content = read_file(path)
    try:
        return leader_epoch_checkpoint.decode(content) if content else ()
    except ValueError as error:
        logger.warning("%s is invalid: %s", path, error)
        return ()


class FileBacking:
    """A log in a directory of its own."""

    __slots__ = (
        "_discarded", "_executor", "_files", "_has_new_names", "_health",
        "_is_durable", "_is_removed", "_latest_epoch", "_path", "_pending", "_recovery_point",
        "_sealed", "_start_offset", "_storing", "_syncing",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        files: OpenFiles,
        executor: Executor,
        checkpoint: Checkpoint,
        *,
        durable: bool,
        saves_in_sync: bool,
        has_new_names: bool,
        health: DiskHealth,
    ) -> None:
        """`checkpoint` is that of the log as it was found.

        `durable`: the log syncs what is appended, and files are synced before they are replaced.
        `health` gets the disk's failures.

        `has_new_names`: the names of its files may not be on the disk.

        With `saves_in_sync`, the checkpoint is stored by `pending_save` only.
        """
        self._path = path
        self._files = files
        self._executor = executor
        self._is_durable = durable
        self._is_removed = False
        self._storing = Lock() if saves_in_sync else None
        self._health = health
        self._recovery_point = checkpoint.recovery_point
        self._start_offset = checkpoint.start_offset
        """As stored."""
        self._latest_epoch = checkpoint.epochs[-1].epoch if checkpoint.epochs else 0
        self._has_new_names = has_new_names
        self._pending: Checkpoint | None = None
        """Saved, but not stored yet."""
        self._syncing: deque[tuple[Segment, Future[None]]] | None = None
        self._sealed: tuple[int, ...] = ()
        """End offsets of full segments that the log has not synced yet."""
        self._discarded: _DiscardedSegments | None = None

    def new_segment(self, base_offset: int, interval: int) -> Segment:
        self._has_new_names = True
        return self._open_segment(base_offset, 0, self._files, interval)

    def _open_segment(
        self, base_offset: int, size: int, files: OpenFiles, interval: int = 4096, ending: str = ""
    ) -> Segment:
        return open_segment(
            self._path, base_offset, size, files, interval, ending, self._latest_epoch
        )

    def sealed(self, segment: Segment) -> None:
        """Have it synced soon, so that no crash of the machine puts it in doubt."""
        if segment.log.file() is None:
            return
        if self._is_durable:
            # Linux reports an error to one sync: another one would hide it from that of the log.
            self._sealed += (segment.end_offset,)
            return
        if self._syncing is None:
            self._syncing = deque()
        self._syncing.append((segment, self._sync(segment, _sync_file)))

    def _sync(self, segment: Segment, how: Callable[[str], None]) -> Future[None]:
        path = segment_path(self._path, segment.base_offset, LOG)

        def sync() -> None:
            try:
                how(path)
            except OSError as error:
                # Before the future ends, and not in a callback: its waiters find it reported.
                self._health.failed(Sync.SEALED, error)
                raise

        return self._executor.submit(sync)

    def unsynced_names(self, *, keep: bool) -> list[str]:
        if not self._has_new_names:
            return []
        self._has_new_names = keep
        return [self._path, os.path.dirname(self._path)]

    def sync(self, names: Iterable[str]) -> None:
        sync_all(names)

    def recovery_point(self) -> int:
        while self._syncing and self._syncing[0][1].done():
            segment, sync = self._syncing[0]
            if sync.exception() is not None:
                # What follows is not contiguous with what is on the disk. A sync would succeed the
                # next time, whatever is there: it has to be written again.
                self._syncing[0] = segment, self._sync(segment, rewrite)
                break
            self._syncing.popleft()
            self._recovery_point = max(self._recovery_point, segment.end_offset)
        if not self._syncing:
            self._health.resumed(Sync.SEALED)
        return self._recovery_point

    def synced(self, end_offset: int) -> None:
        while self._sealed and self._sealed[0] <= end_offset:
            self._recovery_point = max(self._recovery_point, self._sealed[0])
            self._sealed = self._sealed[1:]

    def all_synced(self, end_offset: int) -> None:
        # A segment whose own sync failed is written again first.
        if all(sync.exception() is None for _, sync in self._syncing or ()):
            self._syncing = None
            self._recovery_point = end_offset

    def work_ended(self) -> Callable[[], bool]:
        syncs = [sync for _, sync in self._syncing or ()]
        delete_discarded = self.discard(())

        def have_ended() -> bool:
            failures = [sync.exception() for sync in syncs]
            delete_discarded()
            # A log that is opened in place of this one reports its own.
            self._health.forget()
            return not any(failures)

        return have_ended

    def sync_failed(self, error: OSError) -> None:
        self._health.failed(Sync.APPENDED, error)

    def rewrite_end(self, segment: Segment) -> Callable[[], None]:
        file, directory = segment.log.file(), self._path

        def write_again() -> None:
            if file is not None:
                rewrite_end(file)
            sync_all((directory, os.path.dirname(directory)))

        return write_again

    def sync_resumed(self) -> None:
        # The disk works: a full segment that it still refuses is reported when it is written again.
        self._health.resumed(Sync.APPENDED, Sync.SEALED)

    def taken_back(self, end_offset: int) -> None:
        self._sealed = ()
        if self._syncing is not None:
            self._syncing = deque(
                sealed for sealed in self._syncing if sealed[0].end_offset <= end_offset
            )
        self._recovery_point = min(self._recovery_point, end_offset)

    def discard(self, segments: Sequence[Segment]) -> Callable[[], None]:
        if self._discarded is None:
            self._discarded = _DiscardedSegments()
        for segment in segments:
            segment.close()
            self._discarded.base_offsets.append(segment.base_offset)
        # Another log may get the path of the directory before all is deleted.
        return partial(self._discarded.delete, OpenFile(os.open(self._path, os.O_RDONLY)))

    def _rename_deleted(self, base_offset: int) -> list[str]:
        # Freeing a large file takes the file system milliseconds; a rename does not.
        renamed = []
        for suffix in (*INDEXES, LOG):
            path = segment_path(self._path, base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        return renamed

    def save(self, checkpoint: Checkpoint) -> None:
        if self._storing is None:
            self._store(checkpoint)
        else:
            self._pending = checkpoint

    def pending_save(self) -> Callable[[], None]:
        return self._store_pending

    def _store_pending(self) -> None:
        if self._pending is None or self._storing is None:
            return
        with self._storing:  # one sync at a time, and the end of the log, may come here together
            checkpoint, self._pending = self._pending, None
            if checkpoint is None or self._is_removed:
                return
            try:
                self._store(checkpoint)
            except OSError:
                if self._is_removed:  # with its directory, during the write
                    return
                self._pending = self._pending or checkpoint
                raise

    def _store(self, checkpoint: Checkpoint) -> None:
        store_checkpoint(self._path, checkpoint, durable=self._is_durable)
        if checkpoint.epochs:
            store_epochs(self._path, checkpoint.epochs, durable=self._is_durable)
        if self._is_durable and checkpoint.start_offset != self._start_offset:
            # A power loss would bring back the former one, and deleted records.
            sync_all((self._path,))
            self._start_offset = checkpoint.start_offset

    def removed(self) -> None:
        self._is_removed = True
        self._health.forget()

    def save_producers(self, snapshot: Buffer) -> None:
        replace_file(f"{self._path}/{PRODUCERS}", snapshot, durable=False)

    def load_producers(self) -> bytes:
        return read_file(f"{self._path}/{PRODUCERS}")

    def compaction_target(self, base_offset: int) -> Segment:
        for suffix in (LOG, *INDEXES):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(segment_path(self._path, base_offset, suffix + CLEANED))
        return self._open_segment(base_offset, 0, OpenFiles(), ending=CLEANED)

    def begin_swap(
        self,
        old: Sequence[Segment],
        new: Segment,
        cleaned: int,  # noqa: ARG002 - the checkpoint has it
    ) -> Callable[[], None] | None:
        new.close()
        # from here on the compacted segment counts; see recovery.finish_swap
        os.rename(segment_path(self._path, new.base_offset, LOG + CLEANED), self._swap_path(old))
        return partial(sync_all, (self._path,)) if self._is_durable else None

    def drop_swap(self, old: Sequence[Segment], new: Segment) -> None:  # noqa: ARG002
        # The directory is gone if the log was removed.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._swap_path(old))

    def finish_swap(self, old: Sequence[Segment], new: Segment) -> Segment:
        base_offset, end_offset = old[0].base_offset, old[-1].end_offset
        size, modified = new.size, new.modified
        deleted: list[str] = []
        for segment in old:
            segment.close()
            deleted += self._rename_deleted(segment.base_offset)
        for suffix in INDEXES:
            path = segment_path(self._path, base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path + CLEANED, path)
        os.rename(self._swap_path(old), segment_path(self._path, base_offset, LOG))
        segment = self._open_segment(base_offset, size, self._files)
        segment.end_offset, segment.modified = end_offset, modified
        self._executor.submit(_unlink_all, deleted)
        return segment

    def _swap_path(self, old: Sequence[Segment]) -> str:
        return swap_path(self._path, old[0].base_offset, old[-1].end_offset)


class _DiscardedSegments:
    """Segments whose files are yet to be deleted, in order: one that is left must not lie before a
    gap.
    """

    __slots__ = ("_deleting", "base_offsets")

    def __init__(self) -> None:
        self.base_offsets: deque[int] = deque()
        self._deleting = Lock()

    def delete(self, directory: OpenFile) -> None:
        """Delete the files of all of them. Raises OSError."""
        with self._deleting:
            while self.base_offsets:
                for suffix in (*INDEXES, LOG):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(
                            f"{self.base_offsets[0]:020}{suffix}", dir_fd=directory.descriptor
                        )
                self.base_offsets.popleft()


def swap_path(directory: str, base_offset: int, end_offset: int) -> str:
    """The compacted segment that takes the place of all from `base_offset` up to `end_offset`."""
    return f"{directory}/{base_offset:020}-{end_offset:020}{SWAP}"


def _unlink_all(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # else the next start removes it
            os.unlink(path)


def _sync_file(path: str) -> None:
    sync_all((path,))
