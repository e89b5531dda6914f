"""Times of the tables as Python's, whose calendar ends with the year 9999."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def datetimes(column: Any) -> list[datetime | None]:
    """The values of a column of `TIME`; None also for what is outside the calendar."""
    return list(map(to_datetime, column.cast(pa.int64()).to_pylist()))


def to_datetime(us: int | None) -> datetime | None:
    """A time in µs since 1970; None if it is outside the calendar."""
    try:
        return None if us is None else _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table, with None for times outside the calendar."""
    columns = [
        datetimes(column) if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in table.columns
    ]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
