"""Committed offsets at a time, and what of them is certain.

Compaction keeps the last record of each key. So a record that was in force at the time, and is
still there, was the last one then: its offset is exact. A partition whose first remaining record is
later is unknown, if the time is where compaction has removed records, and else had no commit.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kohort.spark.history.moments import NO_CUT, cut_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import Row

KEY: Final = ("log_partition", "group", "topic", "partition")
COLUMNS: Final = (
    "group", "topic", "partition", "topic_id", "committed", "leader_epoch", "metadata",
    "commit_time", "expire_time", "in_force_time", "log_partition", "log_offset", "certainty",
)  # fmt: skip
_LAST: Final = "_last"


def uncertain(coverage: "list[Row]", cuts: Mapping[int, int]) -> list[int]:
    """The log partitions of which records before the cut may have been removed by compaction."""
    return [
        row.log_partition
        for row in coverage
        for cut in [cuts.get(row.log_partition, NO_CUT)]
        if cut < NO_CUT
        and row.first_hole is not None
        and cut >= row.first_hole  # at the record behind the hole, what is in it is missing
        and (row.complete_from is None or cut <= row.complete_from)
    ]


def committed_at(
    commits: "DataFrame", cuts: Mapping[int, int], uncertain_partitions: list[int]
) -> "DataFrame":
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
    if not uncertain_partitions:
        return known
    seen = greatest(when(col("in_force") < cut_at, col("log_offset")))
    later = (
        in_force.where(col("log_partition").isin(uncertain_partitions))
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
