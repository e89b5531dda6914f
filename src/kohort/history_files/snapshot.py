"""The content of a snapshot, `_batches/<id>.json`: all files of the history, and how far it goes.

    {"version": 3, "id": 12, "cluster": "…", "topic_id": "…", "removed_until": null,
     "searched": {"7": 1200},
     "log_partitions": {"7": {"end": 1200, "state": "state/7/1200-5f0a.arrow",
                              "gaps": [[100, 140, false, false]], "open_commits": 0}},
     "files": [{"path": "commits/7-0-1200-5f0a.parquet", "rows": 900, "bytes": 14000,
                "from": 1767225600000, "to": 1767229200000, "errors": 0, "carried": false}],
     "retired": [{"path": "commits/7-0-90-11ce.parquet", "at": 1767229200000}]}

Times are ms since the epoch.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import KohortError
from kohort.history.gaps import Gap

if TYPE_CHECKING:
    from kohort.history.state import State

VERSION: Final = 3
MAX_GAPS: Final = 100
"""Gaps of a log partition that a snapshot names, so that it stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A Parquet file with rows of one table."""

    path: str
    rows: int
    bytes: int
    """Size of the file."""
    first_ms: int | None
    """Least time of its rows; None if no row has one."""
    last_ms: int | None
    errors: int = 0
    """Number of rows that stand for records that could not be decoded."""
    carried: bool = False
    """Whether its rows are older than `--keep`: the last commit of each partition before that."""

    @property
    def table(self) -> str:
        return self.path.partition("/")[0]


@dataclass(frozen=True, slots=True)
class StoredState:
    """How far a log partition is folded."""

    end: int
    """Next offset to read."""
    state: str | None
    """File of the fold's state; None if no record was read yet."""
    gaps: tuple[Gap, ...] | None = None
    """Where records are missing; None: only the state says so, as of more than MAX_GAPS."""
    open_commits: int | None = None
    """How many rows of `commits` only the state has; None: unknown."""

    @classmethod
    def of(cls, end: int, path: str | None, state: "State") -> "StoredState":
        gaps = tuple(state.coverage.known_gaps)
        return cls(end, path, gaps if len(gaps) <= MAX_GAPS else None, state.open_commits)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "StoredState":
        gaps = values["gaps"]
        return cls(
            values["end"],
            values["state"],
            None if gaps is None else tuple(Gap(*gap) for gap in gaps),
            values["open_commits"],
        )


@dataclass(frozen=True, slots=True)
class RetiredFile:
    """A file that was replaced. Readers of earlier snapshots may still read it."""

    path: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All files of the history at one moment."""

    id: int = 0
    cluster: str | None = None
    """Id of the cluster whose log this is; None if it is unknown."""
    topic_id: str | None = None
    removed_until_ms: int | None = None
    """Time before which rows were removed; None: all rows are kept."""
    log_partitions: dict[int, StoredState] = field(default_factory=dict)
    searched: dict[int, int] = field(default_factory=dict)
    """Log partition → offset up to which findings were looked for."""
    files: tuple[StoredFile, ...] = ()
    retired: tuple[RetiredFile, ...] = ()

    def ends(self) -> dict[int, int]:
        """Log partition → next offset to read."""
        return {number: stored.end for number, stored in self.log_partitions.items()}

    def files_of(
        self, table: str, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[StoredFile]:
        """The files of a table that may have rows from `since` to `until`, by their times.

        Left out are those whose rows have all ended before, or begin later.
        """
        since_ms, until_ms = _ms(since), _ms(until)
        for file in self.files:
            is_early = since_ms is not None and file.last_ms is not None and file.last_ms < since_ms
            is_late = (
                until_ms is not None and file.first_ms is not None and file.first_ms > until_ms
            )
            if file.table == table and not is_early and not is_late:
                yield file

    @property
    def is_searched(self) -> bool:
        """Whether findings were looked for in all records."""
        return all(self.searched.get(number, 0) >= end for number, end in self.ends().items())

    def paths(self) -> set[str]:
        """All files that readers of this or an earlier snapshot may need."""
        states = {stored.state for stored in self.log_partitions.values()}
        return {
            *(file.path for file in self.files),
            *(retired.path for retired in self.retired),
            *(state for state in states if state is not None),
        }

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": VERSION,
                "id": self.id,
                "cluster": self.cluster,
                "topic_id": self.topic_id,
                "removed_until": self.removed_until_ms,
                "log_partitions": {
                    str(number): stored.to_json()
                    for number, stored in sorted(self.log_partitions.items())
                },
                "searched": {str(number): end for number, end in sorted(self.searched.items())},
                "files": list(map(file_to_json, self.files)),
                "retired": [{"path": file.path, "at": file.at_ms} for file in self.retired],
            }
        ).encode()

    @classmethod
    def from_json(cls, data: bytes, path: str) -> "Snapshot":
        """Raises KohortError; `path` is for its message."""
        try:
            values = json.loads(data)
            if values["version"] != VERSION:
                raise KohortError(
                    f"{path}: written by another version of Kohort (format {values['version']}, "
                    f"and this one reads {VERSION}); build the history into another directory"
                )
            return cls(
                id=values["id"],
                cluster=values["cluster"],
                topic_id=values["topic_id"],
                removed_until_ms=values["removed_until"],
                log_partitions={
                    int(number): StoredState.from_json(stored)
                    for number, stored in values["log_partitions"].items()
                },
                searched={int(number): end for number, end in values["searched"].items()},
                files=tuple(map(file_from_json, values["files"])),
                retired=tuple(RetiredFile(file["path"], file["at"]) for file in values["retired"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KohortError(
                f"{path}: is damaged, or written by another version of Kohort ({error!r}); "
                "build the history into another directory"
            ) from error


def _ms(time: datetime | None) -> int | None:
    """Milliseconds since the epoch, rounded down."""
    return None if time is None else int(time.timestamp() * 1_000_000) // 1000


def file_to_json(file: StoredFile) -> dict[str, Any]:
    return {
        "path": file.path, "rows": file.rows, "bytes": file.bytes, "from": file.first_ms,
        "to": file.last_ms, "errors": file.errors, "carried": file.carried,
    }  # fmt: skip


def file_from_json(values: dict[str, Any]) -> StoredFile:
    return StoredFile(
        path=values["path"], rows=values["rows"], bytes=values["bytes"], first_ms=values["from"],
        last_ms=values["to"], errors=values["errors"], carried=values["carried"],
    )  # fmt: skip
