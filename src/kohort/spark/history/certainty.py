"""Committed offsets at a time in Spark, by the rules of `kohort.history_files.certainty`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kohort.history_files.certainty import EXACT, UNKNOWN, Limits
from kohort.spark.history.moments import cut_column, offset_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY: Final = ("log_partition", "group", "topic", "partition")
COLUMNS: Final = (
    "group", "topic", "partition", "topic_id", "committed", "leader_epoch", "metadata",
    "commit_time", "expire_time", "in_force_time", "log_partition", "log_offset", "certainty",
)  # fmt: skip
_LAST: Final = "_last"


def uncertain(limits: Mapping[int, Limits]) -> list[int]:
    """Log partitions of which partitions may have had an offset whose first record is later."""
    return [number for number, each in limits.items() if each.is_uncertain]


def committed_at(
    commits: "DataFrame", cuts: Mapping[int, int], limits: Mapping[int, Limits]
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
    removed_from = {number: each.removed_from for number, each in limits.items()}
    is_offset = col("committed").isNotNull()
    if any(removed_from.values()):
        is_offset |= col("log_offset") < offset_column(removed_from, 0)
    known = (
        in_force.join(broadcast(places), is_last, "left_semi")
        .where(is_offset)
        .withColumn("certainty", lit(EXACT))
        .select(*COLUMNS)
    )
    known_from = {number: each.known_from for number, each in limits.items()}
    if any(known_from.values()):
        is_known = col("log_offset") >= offset_column(known_from, 0)
        known = known.select(
            *(
                col(name) if name in KEY else when(is_known, col(name)).alias(name)
                for name in COLUMNS
            )
        ).fillna(UNKNOWN, ["certainty"])
    if not (numbers := uncertain(limits)):
        return known
    seen = greatest(when(col("in_force") < cut_at, col("log_offset")))
    later = (
        in_force.where(col("log_partition").isin(numbers))
        .groupBy(*KEY)
        .agg(seen.alias(_LAST))
        .where(col(_LAST).isNull())
        .withColumn("certainty", lit(UNKNOWN))
    )
    missing = [field for field in known.schema.fields if field.name not in later.columns]
    return known.unionByName(
        later.select(
            "*", *(lit(None).cast(field.dataType).alias(field.name) for field in missing)
        ).select(*COLUMNS)
    )
