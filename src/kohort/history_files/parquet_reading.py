"""Reads rows of Parquet files, and holds little more than those that pass a filter."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kohort.errors import KohortError
from kohort.history_files.file_system import Files


def read_rows(
    files: Files,
    path: str,
    columns: Sequence[str],
    filters: Any = None,
    dictionaries: Sequence[str] | None = None,
) -> pa.Table:
    """These columns, in this order, of the rows that pass `filters`, which are as PyArrow has them.

    `dictionaries`: columns that come as dictionaries. Raises KohortError for a damaged file.
    """
    with files.open(path) as source, parquet_errors(path):
        # With threads PyArrow decodes row groups ahead, and a file has 16.
        rows = pq.read_table(
            source,
            columns=list(columns),
            filters=filters,
            read_dictionary=dictionaries,
            use_threads=False,
            pre_buffer=files.is_remote,
        )
    return rows.select(list(columns))


@contextmanager
def parquet_errors(path: str) -> Iterator[None]:
    """Name the file in errors of PyArrow."""
    try:
        yield
    except pa.ArrowException as error:
        raise KohortError(f"{path}: is damaged: {error}") from error
