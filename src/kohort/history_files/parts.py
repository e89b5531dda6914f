"""Log partitions in parts that are read at once, and the commits of a part."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.lag import COMMIT_COLUMNS
from kohort.history.schema import COMMITS, TIME
from kohort.history_files.building import divided
from kohort.history_files.file_system import Files
from kohort.history_files.folding import LogRange
from kohort.history_files.parquet_reading import read_rows
from kohort.history_files.snapshot import Snapshot

if TYPE_CHECKING:
    from kohort.history.state import State

COMMITS_PER_PART: Final = 1_000_000


def parts_of(snapshot: Snapshot, cores: int) -> list[list[int]]:
    """The log partitions in parts that are read at once, of about the same size.

    A multiple of the cores, which then are done at the same time, if there are enough.
    """
    ranges = [
        LogRange(number, 0, stored.end, None) for number, stored in snapshot.log_partitions.items()
    ]
    commits = sum(file.rows for file in snapshot.files_of("commits"))
    rounds = -(-commits // (COMMITS_PER_PART * cores))
    parts = divided(ranges, max(rounds, 1) * cores) if ranges else []
    return [[each.log_partition for each in part] for part in parts]


def stored_commits(
    files: Files, snapshot: Snapshot, log_partitions: Sequence[int], at: datetime | None = None
) -> pa.Table:
    """The commits that were in force, with COMMIT_COLUMNS and `log_partition`; until `at`.

    Names are dictionaries. Raises KohortError.
    """
    wanted = (
        pc.field("log_partition").isin(pa.array(log_partitions, pa.int32()))
        & pc.field("in_force").is_valid()
        & (pc.field("kind") != "superseded")
    )
    if at is not None:
        wanted &= pc.field("in_force_time") <= pa.scalar(at, TIME)
    paths = [file.path for file in snapshot.files_of("commits", until=at)]
    return read_columns(files, paths, [*COMMIT_COLUMNS, "log_partition"], wanted, COMMITS)


def read_columns(
    files: Files, paths: Iterable[str], names: Sequence[str], wanted: Any, schema: pa.Schema
) -> pa.Table:
    """Columns of files, of the rows that are wanted; names are dictionaries.

    Raises KohortError.
    """
    fields = pa.schema([_encoded(schema.field(name)) for name in names])
    encoded = [field.name for field in fields if pa.types.is_dictionary(field.type)]
    parts = (read_rows(files, path, names, wanted, encoded).cast(fields) for path in paths)
    return pa.concat_tables([fields.empty_table(), *parts])


def _encoded(field: pa.Field) -> pa.Field:
    is_name = field.type == pa.string()
    return pa.field(field.name, pa.dictionary(pa.int32(), pa.string())) if is_name else field


def states_of(files: Files, snapshot: Snapshot, log_partitions: Sequence[int]) -> "Iterator[State]":
    """The states of the fold of these log partitions."""
    from kohort.history.state import State

    for number in log_partitions:
        path = snapshot.log_partitions[number].state
        if path is not None:
            yield State.from_arrow(files.read(path))
