"""Committed offsets at a time, and what of them is certain.

Compaction keeps the last record of each key. So a record that was in force at the time, and is
still there, was the last one then: its offset is exact. A partition whose first remaining record is
later is unknown, if the time is where compaction has removed records, and else had no commit.

If records were removed after a record had been read, it may have been replaced by one of them: its
partition is unknown from there to its next record.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.history_files.moments import is_in_gap
from kohort.spark.history.moments import NO_CUT, cut_column, offset_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import Row

KEY: Final = ("log_partition", "group", "topic", "partition")
COLUMNS: Final = (
    "group", "topic", "partition", "topic_id", "committed", "leader_epoch", "metadata",
    "commit_time", "expire_time", "in_force_time", "log_partition", "log_offset", "certainty",
)  # fmt: skip
_LAST: Final = "_last"


class Limits(NamedTuple):
    """What can be relied on, by log partition."""

    uncertain: list[int]
    """Those of which records before the cut may have been removed."""
    known_from: dict[int, int]
    """Offset before which records may have been replaced by others that were removed."""


def limits(coverage: "list[Row]", cuts: Mapping[int, int]) -> Limits:
    """By the gaps that begin before the cuts."""
    found = Limits([], {})
    for row in coverage:
        cut = cuts.get(row.log_partition, NO_CUT)
        gaps = [gap for gap in row.gaps if gap.hole <= cut]
        if cut < NO_CUT and is_in_gap(gaps, cut):
            found.uncertain.append(row.log_partition)
        if later := [gap.hole for gap in gaps if gap.is_later]:
            found.known_from[row.log_partition] = later[-1]
    return found


def committed_at(commits: "DataFrame", cuts: Mapping[int, int], limits: Limits) -> "DataFrame":
    """The commit in force of each group and partition, with COLUMNS. Tombstones have no row."""
    from pyspark.sql.functions import broadcast, col, lit, when
    from pyspark.sql.functions import max as greatest

    in_force = commits.where(col("in_force").isNotNull())
    cut_at = cut_column(cuts)
    last = in_force.where(col("in_force") < cut_at).groupBy(*KEY)
    # Broadcast without the strings of the key, which the commits have.
    places = last.agg(greatest("log_offset").alias(_LAST)).select(
        col("log_partition").alias("_number"), _LAST
    )
    is_last = (col("log_partition") == col("_number")) & (col("log_offset") == col(_LAST))
    known = (
        in_force.join(broadcast(places), is_last, "left_semi")
        .where(col("committed").isNotNull())
        .withColumn("certainty", lit("exact"))
        .select(*COLUMNS)
    )
    if limits.known_from:
        is_known = col("log_offset") >= offset_column(limits.known_from, 0)
        known = known.select(
            *(
                col(name) if name in KEY else when(is_known, col(name)).alias(name)
                for name in COLUMNS
            )
        ).fillna("unknown", ["certainty"])
    if not limits.uncertain:
        return known
    seen = greatest(when(col("in_force") < cut_at, col("log_offset")))
    later = (
        in_force.where(col("log_partition").isin(limits.uncertain))
        .groupBy(*KEY)
        .agg(seen.alias(_LAST))
        .where(col(_LAST).isNull())
        .withColumn("certainty", lit("unknown"))
    )
    missing = [field for field in known.schema.fields if field.name not in later.columns]
    return known.unionByName(
        later.select(
            "*", *(lit(None).cast(field.dataType).alias(field.name) for field in missing)
        ).select(*COLUMNS)
    )
