"""Directories with files: local ones, and those of object stores, by `pyarrow.fs`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import fs

from kohort.errors import ConfigError, KohortError

File: TypeAlias = Any
"""A `pyarrow.NativeFile` that can seek."""


class Entry(NamedTuple):
    """A file or a directory, symbolic links resolved."""

    name: str
    is_directory: bool
    size: int


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, to be used in any process."""

    uri: str = field(repr=False)
    """A path or URI on the same file system, maybe with credentials."""
    path: str
    """Of the directory itself, as its file system names it."""

    def __str__(self) -> str:
        kind = self._system.type_name
        return self.path if kind == "local" else f"{kind}://{self.path}"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_local(self) -> bool:
        return isinstance(self._system, fs.LocalFileSystem)

    @property
    def _system(self) -> Any:
        return _resolved(self.uri)[0]

    def child(self, name: str) -> "Directory":
        return Directory(self.uri, f"{self.path}/{name}")

    def entries(self) -> list[Entry]:
        """Its files and directories, by name.

        Raises FileNotFoundError if it does not exist any more; KohortError.
        """
        with _readable(str(self)):
            found = self._system.get_file_info(fs.FileSelector(self.path))
        return sorted(
            Entry(each.base_name, each.type is fs.FileType.Directory, each.size or 0)
            for each in found
            if each.type in (fs.FileType.Directory, fs.FileType.File)
        )

    def open(self, name: str) -> File | None:
        """Open a file; None if there is none. Raises KohortError."""
        with _readable(f"{self}/{name}"):
            try:
                return self._system.open_input_file(f"{self.path}/{name}")
            except FileNotFoundError:
                return None

    def size(self, name: str) -> int:
        """Bytes of a file; 0 if there is none. Raises KohortError."""
        with _readable(f"{self}/{name}"):
            return self._system.get_file_info([f"{self.path}/{name}"])[0].size or 0

    def read(self, name: str) -> bytes:
        """The content of a small file; empty if there is none. Raises KohortError."""
        file = self.open(name)
        if file is None:
            return b""
        with file, _readable(f"{self}/{name}"):
            content: bytes = file.read()
            return content


def locate(path: str) -> tuple[Directory, str | None]:
    """The directory at a path or URI; of a file its directory, and its name.

    Raises ConfigError if there is nothing, KohortError if that cannot be found out.
    """
    system, at = _resolved(path)
    with _readable(path):
        kind = system.get_file_info([at])[0].type
    if kind is fs.FileType.Directory:
        return Directory(_absolute(path), at), None
    if kind is fs.FileType.File:
        directory, _, name = at.rpartition("/")
        return Directory(_absolute(path), directory), name
    raise ConfigError(f"{_without_secrets(path)} does not exist")


@lru_cache(maxsize=64)
def _resolved(path: str) -> tuple[Any, str]:
    try:
        system, at = fs.FileSystem.from_uri(_absolute(path))
    except (OSError, ValueError, pa.ArrowException) as error:
        shown = _without_secrets(path)
        why = str(error).replace(path, shown)
        raise ConfigError(f"{shown} cannot be opened: {why}") from None
    return system, at.rstrip("/") or "/"


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


def _without_secrets(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Name `what` in errors of a file system."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise KohortError(f"{_without_secrets(what)} cannot be read: {error}") from None
