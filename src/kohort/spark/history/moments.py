"""Cuts tables at a time: what a build would have made of the log up to there.

Of each log partition that is everything before the first record with a later time. So clocks that
step back between coordinators do not matter.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from kohort.history_files.certainty import NO_CUT
from kohort.history_files.moments import COUNTS, CUTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def cut_offsets(records: "DataFrame", moment: datetime) -> dict[int, int]:
    """Log partition → first offset of the records that is later than `moment`.

    Log partitions without one are missing. Runs a job.
    """
    from pyspark.sql.functions import col, lit
    from pyspark.sql.functions import min as least

    later = records.where(col("time") > lit(moment))
    rows = later.groupBy("log_partition").agg(least("log_offset").alias("cut")).collect()
    return {row.log_partition: row.cut for row in rows}


def cut_column(cuts: Mapping[int, int]) -> "Column":
    """The cut of a row's log partition, or NO_CUT."""
    return offset_column(cuts, NO_CUT)


def offset_column(offsets: Mapping[int, int], default: int) -> "Column":
    """The offset of a row's log partition, or the default."""
    from pyspark.sql.functions import array, coalesce, col, get, lit

    if not offsets:
        return lit(default)
    # An array is indexed, while a map is searched.
    numbers = range(max(offsets) + 1)
    by_number = array(*(lit(offsets.get(number, default)) for number in numbers))
    return coalesce(get(by_number, col("log_partition")), lit(default))


def table_at(name: str, rows: "DataFrame", cuts: Mapping[int, int]) -> "DataFrame":
    """A table as it was: without later rows, and with rows open that ended later."""
    from pyspark.sql.functions import col, lit, when

    cut, cut_at = CUTS[name], cut_column(cuts)
    seen = rows.where(col(cut.begins) < cut_at)
    if cut.ends is None:
        return seen
    ends_later = col(cut.ends) >= cut_at
    values: dict[str, str | None] = {**dict.fromkeys(cut.unknown), **cut.values}
    return seen.select(
        *(
            when(ends_later, lit(values[field.name]).cast(field.dataType))
            .otherwise(col(field.name))
            .alias(field.name)
            if field.name in values
            else col(field.name)
            for field in rows.schema.fields
        )
    )


def coverage_at(coverage: "DataFrame", cuts: Mapping[int, int], moment: datetime) -> "DataFrame":
    """`coverage` as it was, as far as the present one tells. Counts are null, if they are less."""
    from pyspark.sql.functions import col, least, lit, when
    from pyspark.sql.functions import filter as filter_

    cut_at = cut_column(cuts)
    is_cut = cut_at < col("end")
    changed = {
        "end": least(col("end"), cut_at),
        "first_hole": when(col("first_hole") <= cut_at, col("first_hole")),
        "complete_from": when(col("complete_from") < cut_at, col("complete_from")),
        "complete_from_time": when(col("complete_from") < cut_at, col("complete_from_time")),
        "gaps": filter_("gaps", lambda gap: gap["hole"] <= cut_at),
        "last_time": least(col("last_time"), lit(moment)),
        **{name: when(~is_cut, col(name)) for name in COUNTS},
    }
    return coverage.where(col("first") < cut_at).select(
        *(changed.get(name, col(name)).alias(name) for name in coverage.columns)
    )
