"""A disk that loses power: what was not synced may be lost, in any order.

`VolatileDisk` records everything that is written below a directory by way of `os`. `remains` then
makes a directory of what a power loss after any number of those operations may have left:

- what was synced (file contents by fsync of the file, names by fsync of the directory) is there;
- of every other write to a file all, nothing or a part may be there, or zeros behind its old end;
- so it is with a write before a failed fsync of its file (Linux takes its pages for clean), and a
  later fsync changes nothing of it;
- every other change of a directory (new name, rename, removal) may have happened or not.

A test records a scenario once, and starts a server on each of the directories.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Write: TypeAlias = tuple[int, bytes] | int
"""(position, data), or the size that a file was truncated to."""


@dataclass(frozen=True)
class _Certain:
    """A write that is on the disk, though one before it may not be."""

    write: Write


class File:
    """The content of one file, as synced and as written since."""

    def __init__(self) -> None:
        self.synced = b""
        self.writes: list[Write | _Certain] = []
        self.clean = 0
        """Number of `writes` that no fsync writes any more."""

    def sync(self) -> None:
        if not self.clean:
            self.synced, self.writes = _Chance(1).content(self), []
            return
        for number, write in enumerate(self.writes):
            is_written = number >= self.clean or isinstance(write, int)
            if is_written and not isinstance(write, _Certain):
                self.writes[number] = _Certain(write)
        self.clean = len(self.writes)


@dataclass
class Directory:
    """Names, as synced and as changed since; each change is a set of names that go or come."""

    synced: dict[str, "File | Directory"] = field(default_factory=dict)
    changes: list[dict[str, "File | Directory | None"]] = field(default_factory=list)

    def now(self) -> dict[str, "File | Directory"]:
        names = dict(self.synced)
        for change in self.changes:
            _apply(names, change)
        return names


def _synced(path: Path) -> Directory:
    """The directory at `path`, with all that is in it."""
    found = Directory()
    for each in path.iterdir():
        if each.is_dir():
            found.synced[each.name] = _synced(each)
        else:
            file = found.synced[each.name] = File()
            file.synced = each.read_bytes()
    return found


def _apply(
    names: dict[str, "File | Directory"], change: dict[str, "File | Directory | None"]
) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class VolatileDisk:
    """Records what is done below `root`, in order; `mark` notes what has been promised by then."""

    def __init__(self, root: Path, before: Callable[[str], None] = lambda _: None) -> None:
        """All that is below `root` now has been synced.

        `before` is called with the name of each operation, and may raise OSError in its place.
        """
        self.root = str(root)
        self._found = _synced(root) if root.exists() else Directory()
        self._before = before
        self.operations: list[tuple[Any, ...]] = []
        self._paths: dict[int, str] = {}
        self._lock = threading.RLock()

    def found(self, name: str) -> Directory:
        """A directory that was there before the recording."""
        node = self._found.synced[name]
        assert isinstance(node, Directory)
        return node

    def mark(self, promise: object) -> None:
        """From here on a power loss must not undo `promise`."""
        self.operations.append(("promise", promise))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this process writes by way of `os`, threads included."""
        names = (
            "open", "close", "write", "pwrite", "pwritev", "ftruncate", "truncate", "fsync",
            "rename", "replace", "unlink", "mkdir", "rmdir",
        )  # fmt: skip
        real = {name: getattr(os, name) for name in names}
        for name in names:
            setattr(os, name, self._recorder(name, real[name]))
        try:
            yield
        finally:
            for name in names:
                setattr(os, name, real[name])

    def _recorder(self, name: str, done: Any) -> Any:
        record = getattr(self, f"_{name}")

        def act(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                named = list(arguments)
                if "dir_fd" in options:
                    named[0] = f"{self._paths.get(options['dir_fd'], '')}/{arguments[0]}"
                inside = self._inside(named[0])
                try:
                    if inside is not None:
                        self._before(name)
                    result = done(*arguments, **options)
                except OSError:
                    if inside is not None and name == "fsync":
                        self._add("fail_fsync", inside)
                    raise
                record(result, *named)
            return result

        return act

    def _inside(self, path: Any) -> str | None:
        text = os.fspath(path) if not isinstance(path, int) else self._paths.get(path, "")
        if isinstance(text, bytes) or not text.startswith(self.root):
            return None
        return text[len(self.root) :].strip("/")

    def _add(self, *operation: Any) -> None:
        self.operations.append(operation)

    def _open(self, descriptor: int, path: Any, flags: int, *_: Any) -> None:
        inside = self._inside(path)
        if inside is None:
            return
        self._paths[descriptor] = os.fspath(path)
        if flags & getattr(os, "O_TMPFILE", 0) == getattr(os, "O_TMPFILE", -1):
            self._paths[descriptor] += "/~without-name"
        if flags & os.O_CREAT:
            self._add("create", inside)
        if flags & os.O_TRUNC:
            self._add("truncate", inside, 0)

    def _close(self, _: None, descriptor: int) -> None:
        self._paths.pop(descriptor, None)

    def _write(self, count: int, descriptor: int, data: bytes) -> None:
        if (inside := self._inside(descriptor)) is not None:
            position = os.lseek(descriptor, 0, os.SEEK_CUR) - count
            self._add("write", inside, position, bytes(data[:count]))

    def _pwrite(self, count: int, descriptor: int, data: Any, position: int) -> None:
        if (inside := self._inside(descriptor)) is not None:
            self._add("write", inside, position, bytes(data)[:count])

    def _pwritev(self, count: int, descriptor: int, parts: Any, position: int, *_: Any) -> None:
        if (inside := self._inside(descriptor)) is not None:
            self._add("write", inside, position, b"".join(map(bytes, parts))[:count])

    def _ftruncate(self, _: None, descriptor: int, size: int) -> None:
        if (inside := self._inside(descriptor)) is not None:
            self._add("truncate", inside, size)

    _truncate = _ftruncate

    def _fsync(self, _: None, descriptor: int) -> None:
        if (inside := self._inside(descriptor)) is not None:
            self._add("fsync", inside)

    def _rename(self, _: None, old: Any, new: Any) -> None:
        if (inside := self._inside(old)) is not None:
            self._add("rename", inside, self._inside(new))
            for descriptor, path in self._paths.items():
                if path == os.fspath(old) or path.startswith(f"{os.fspath(old)}/"):
                    self._paths[descriptor] = os.fspath(new) + path[len(os.fspath(old)) :]

    _replace = _rename

    def _unlink(self, _: None, path: Any) -> None:
        if (inside := self._inside(path)) is not None:
            self._add("remove", inside)

    _rmdir = _unlink

    def _mkdir(self, _: None, path: Any, *__: Any) -> None:
        if (inside := self._inside(path)) is not None:
            self._add("mkdir", inside)

    def remains(self, count: int, seed: int, target: Path) -> list[object]:
        """Make `target` what a loss after `count` operations may leave; returns what was promised.

        Seed 0 loses all that was not synced, seed 1 nothing, others any part of it.
        """
        model, promises = _Model(deepcopy(self._found)), []
        for operation, *arguments in self.operations[:count]:
            if operation == "promise":
                promises.append(arguments[0])
            else:
                with suppress(KeyError):  # through a descriptor of what another thread removed
                    getattr(model, operation)(*arguments)
        model.write_out(target, _Chance(seed))
        return promises


class _Chance:
    def __init__(self, seed: int) -> None:
        self._seed, self._random = seed, random.Random(seed)

    def survives(self) -> bool:
        return self._seed == 1 or (self._seed > 1 and self._random.random() < 0.5)

    def content(self, file: File) -> bytes:
        data = bytearray(file.synced)
        for write in file.writes:
            if isinstance(write, _Certain):
                _write(data, write.write)
                continue
            if isinstance(write, int):
                if self.survives():
                    _write(data, write)
                continue
            position, written = write
            if self._seed > 1 and self._random.random() < 0.3:  # its pages were not written
                former = bytes(data[position : position + len(written)])
                written = former + bytes(len(written) - len(former))
            elif self._seed > 1 and self._random.random() < 0.3:  # some were
                written = written[: self._random.randrange(len(written) + 1)]
            elif not self.survives():
                continue
            _write(data, (position, written))
        return bytes(data)


def _write(data: bytearray, write: Write) -> None:
    if isinstance(write, int):
        del data[write:]
        return
    position, written = write
    if len(data) < position:
        data += bytes(position - len(data))
    data[position : position + len(written)] = written


class _Model:
    """The disk after some operations."""

    def __init__(self, root: Directory) -> None:
        self.root = root

    def _parent(self, path: str) -> tuple[Directory, str]:
        *parts, name = path.split("/")
        at = self.root
        for part in parts:
            node = at.now()[part]
            assert isinstance(node, Directory)
            at = node
        return at, name

    def _node(self, path: str) -> File | Directory:
        if not path:
            return self.root
        parent, name = self._parent(path)
        return parent.now()[name]

    def create(self, path: str) -> None:
        parent, name = self._parent(path)
        if name not in parent.now():
            parent.changes.append({name: File()})

    def mkdir(self, path: str) -> None:
        if path:
            parent, name = self._parent(path)
            parent.changes.append({name: Directory()})

    def write(self, path: str, position: int, data: bytes) -> None:
        node = self._node(path)
        assert isinstance(node, File)
        node.writes.append((position, data))

    def truncate(self, path: str, size: int) -> None:
        node = self._node(path)
        assert isinstance(node, File)
        node.writes.append(size)

    def fsync(self, path: str) -> None:
        node = self._node(path)
        if isinstance(node, Directory):
            node.synced, node.changes = node.now(), []
        else:
            node.sync()

    def fail_fsync(self, path: str) -> None:
        node = self._node(path)
        if isinstance(node, File):
            node.clean = len(node.writes)

    def rename(self, old: str, new: str) -> None:
        node = self._node(old)
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        assert source is target
        source.changes.append({old_name: None, new_name: node})

    def remove(self, path: str) -> None:
        parent, name = self._parent(path)
        parent.changes.append({name: None})

    def write_out(self, target: Path, chance: _Chance) -> None:
        self._write_directory(self.root, target, chance)

    def _write_directory(self, directory: Directory, target: Path, chance: _Chance) -> None:
        target.mkdir()
        names = dict(directory.synced)
        for change in directory.changes:
            if chance.survives():
                _apply(names, change)
        for name, node in names.items():
            if isinstance(node, Directory):
                self._write_directory(node, target / name, chance)
            else:
                (target / name).write_bytes(chance.content(node))
