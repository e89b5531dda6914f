"""The format of a data directory: whose it is, and which version of Kohort can read it.

`kohort.properties` at the top of a data directory is written before anything else in it:

    version=1
    cluster.id=8oQ1vAqlT6mNcPYxJ1k0zw
    written.by=0.1.0

Format 2 is that of a directory whose partitions are spread over several processes (see
`worker_directories`). It has one more line, `workers=3`. 0 says that partitions are being moved:
they may lie in any of the directories. A version that reads format 1 only would take those for
missing.

| found at the start | what happens |
|---|---|
| nothing, or an empty directory | it becomes a data directory of the current format |
| `kohort.properties` of this format | it is used |
| `kohort.properties` of a later format | refused: that version of Kohort is needed |
| `kohort.properties` of a copy that was not completed | refused, but by the next copy |
| no such file, but `__cluster_metadata-0` as version 0.1 made it | migrated |
| Kafka's `meta.properties`, or any other files | refused, and left as it is |
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from kohort import __version__
from kohort.errors import KohortError
from kohort.util.text import join_names

FORMAT_FILE: Final = "kohort.properties"
VERSION: Final = 2
"""The latest format that this version of Kohort reads."""
MOVING: Final = 0
"""In place of the number of workers while partitions are moved."""

_UNFINISHED: Final = b"copy=unfinished\n"
_ITS_CLUSTER: Final = b"cluster.id="

METADATA_NAME: Final = "__cluster_metadata-0"
METADATA_ID: Final = UUID(int=1)
"""The id of its topic, which is Kafka's as well (Uuid.METADATA_TOPIC_ID)."""
_OURS_BEFORE_METADATA: Final = frozenset((".lock", ".clean-shutdown", FORMAT_FILE + ".new"))
"""All that a server of any version leaves that was killed before it had its metadata log."""
_NOT_COUNTED: Final = frozenset(("lost+found", ".DS_Store", ".snapshot"))
"""Made by file systems and operating systems, also where nobody has put anything."""
_KAFKA: Final = ("meta.properties", "bootstrap.checkpoint", "replication-offset-checkpoint")


class DirectoryFormat(NamedTuple):
    """What `kohort.properties` says."""

    version: int
    cluster_id: str
    written_by: str
    """The version of Kohort that last served from the directory."""
    workers: int = 1
    """Over how many processes the partitions are spread, or `MOVING`."""


def examine(path: Path) -> DirectoryFormat | None:
    """The format of the data directory `path`, which is only looked at; None if it has none yet.

    Without a format the directory is new, or version 0.1 has left it. Raises KohortError if the
    directory is not Kohort's, or needs a later version; the text says what to do. Raises OSError.
    """
    try:
        names = set(os.listdir(path))
    except FileNotFoundError:
        return None
    if (
        any((path / name).is_file() for name in _KAFKA)
        or (path / METADATA_NAME / "quorum-state").exists()
    ):
        raise KohortError(
            f"{path} is a data directory of Apache Kafka; Kohort neither reads nor changes it. "
            "Give Kohort a directory of its own with --data"
        )
    if FORMAT_FILE in names:
        return _readable(path, (path / FORMAT_FILE).read_bytes())
    if METADATA_NAME not in names:
        _refuse_foreign(path, names - _OURS_BEFORE_METADATA - _NOT_COUNTED)
    return None


def _refuse_foreign(path: Path, foreign: set[str]) -> None:
    if foreign:
        raise KohortError(
            f"{path} is not a data directory of Kohort, and not empty: it has "
            f"{join_names(foreign, 3)}. "
            "Give Kohort an empty or a new directory with --data"
        )


def unfinished_copy(cluster_id: str) -> bytes:
    """The content of `kohort.properties` while that cluster is copied into the directory.

    No version of Kohort serves from it.
    """
    return b"%s%s%s\n" % (_UNFINISHED, _ITS_CLUSTER, cluster_id.encode())


def cluster_of_unfinished_copy(path: Path) -> str | None:
    """The id of the cluster whose copy into the directory was begun, and not completed.

    None if there is no such copy. Raises OSError.
    """
    try:
        content = (path / FORMAT_FILE).read_bytes()
    except FileNotFoundError:
        return None
    if not content.startswith(_UNFINISHED):
        return None
    return content.rpartition(_ITS_CLUSTER)[2].decode(errors="replace").strip()


def _readable(path: Path, content: bytes) -> DirectoryFormat:
    if content.startswith(_UNFINISHED):
        raise KohortError(
            f"{path} has a copy that was not completed: run the same kohort storage copy again, "
            "which goes on"
        )
    current = decode_format(content)
    if current is None:
        raise KohortError(
            f"{path / FORMAT_FILE} is damaged: it has no version and cluster.id. Restore the file "
            f"from a copy, or write it again with the lines {_lines_of(path)} and "
            "'cluster.id=…' ('kohort_build_info' in the metrics shows the id)"
        )
    if current.version > VERSION:
        raise KohortError(
            f"{path} was written by Kohort {current.written_by} in format {current.version}; this "
            f"is Kohort {__version__}, which reads formats up to {VERSION}. Start Kohort "
            f"{current.written_by} or later"
        )
    return current


def _lines_of(path: Path) -> str:
    """The lines that a lost format file had, but for the id of the cluster."""
    if (path / "worker1").exists():
        return f"'version=2', 'workers={MOVING}'"
    return "'version=1'"


def encode_format(cluster_id: str, workers: int = 1) -> bytes:
    """The content of `kohort.properties` as this version writes it."""
    start = "version=1\n" if workers == 1 else f"version=2\nworkers={workers}\n"
    return f"{start}cluster.id={cluster_id}\nwritten.by={__version__}\n".encode()


def decode_format(content: bytes) -> DirectoryFormat | None:
    """What a `kohort.properties` says, None if it does not say enough; unknown lines may follow."""
    lines = content.decode(errors="replace").splitlines()
    fields = {name.strip(): value.strip() for name, _, value in (x.partition("=") for x in lines)}
    version, cluster_id = _number(fields, "version"), fields.get("cluster.id", "")
    workers = 1 if version == 1 else _number(fields, "workers")
    if not version or (version <= VERSION and (not cluster_id or workers is None)):
        return None
    return DirectoryFormat(version, cluster_id, fields.get("written.by", "unknown"), workers or 0)


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else None
