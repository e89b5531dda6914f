"""Committed offsets at a time in Spark, by the rules of `kohort.history_files.certainty`."""

from collections.abc import Mapping, Sequence
from functools import reduce
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
_UNREADABLE: Final = "_unreadable"


def uncertain(limits: Mapping[int, Limits]) -> list[int]:
    """Log partitions of which partitions may have had an offset whose first record is later."""
    return [number for number, each in limits.items() if each.is_uncertain]


def committed_at(
    commits: "DataFrame",
    cuts: Mapping[int, int],
    limits: Mapping[int, Limits],
    *,
    has_errors: bool,
) -> "DataFrame":
    """The commit in force of each group and partition, with COLUMNS. Tombstones have no row.

    `has_errors`: whether `commits` has records that cannot be decoded.
    """
    from pyspark.sql.functions import broadcast, col, lit, when

    last = _last_records(commits, cuts, has_errors=has_errors)
    unknown = [last.where(col(_UNREADABLE) > col(_LAST))] if has_errors else []
    certain = last.where(col(_UNREADABLE) <= col(_LAST)) if has_errors else last
    # Broadcast without the strings of the key, which the commits have.
    places = certain.select(col("log_partition").alias("_number"), _LAST)
    is_last = (col("log_partition") == col("_number")) & (col("log_offset") == col(_LAST))
    removed_from = {number: each.removed_from for number, each in limits.items()}
    is_offset = col("committed").isNotNull()
    if any(removed_from.values()):
        is_offset |= col("log_offset") < offset_column(removed_from, 0)
    known = (
        commits.where(col("in_force").isNotNull())
        .join(broadcast(places), is_last, "left_semi")
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
    if numbers := uncertain(limits):
        unknown.append(_later(commits.where(col("log_partition").isin(numbers)), cuts))
    return _with_unknown(known, unknown) if unknown else known


def _last_records(
    commits: "DataFrame", cuts: Mapping[int, int], *, has_errors: bool
) -> "DataFrame":
    """Of each partition the log offset of its last record in force before the cut.

    With `has_errors` also that of its last one that cannot be decoded; -1: there is none.
    """
    from pyspark.sql.functions import coalesce, col, lit, when
    from pyspark.sql.functions import max as greatest

    cut_at, offset = cut_column(cuts), col("log_offset")
    is_seen = col("in_force") < cut_at
    if not has_errors:
        return commits.where(is_seen).groupBy(*KEY).agg(greatest(offset).alias(_LAST))
    # Those whose key cannot be decoded have no group.
    is_unreadable = col("error").isNotNull() & col("group").isNotNull() & (offset < cut_at)
    return (
        commits.where(is_seen | is_unreadable)
        .groupBy(*KEY)
        .agg(
            coalesce(greatest(when(is_seen, offset)), lit(-1)).alias(_LAST),
            coalesce(greatest(when(is_unreadable, offset)), lit(-1)).alias(_UNREADABLE),
        )
    )


def _later(commits: "DataFrame", cuts: Mapping[int, int]) -> "DataFrame":
    """The partitions whose records all came into force behind the cut."""
    from pyspark.sql.functions import col, when
    from pyspark.sql.functions import max as greatest

    seen = greatest(when(col("in_force") < cut_column(cuts), col("log_offset")))
    in_force = commits.where(col("in_force").isNotNull())
    return in_force.groupBy(*KEY).agg(seen.alias(_LAST)).where(col(_LAST).isNull())


def _with_unknown(known: "DataFrame", unknown: "Sequence[DataFrame]") -> "DataFrame":
    """The rows of `known`, and one without an offset for each partition of `unknown`."""
    from pyspark.sql.functions import col, lit

    keys = [partitions.select(*KEY) for partitions in unknown]
    # A partition may be in both.
    together = reduce(lambda one, other: one.union(other), keys).distinct()
    rows = together.withColumn("certainty", lit(UNKNOWN))
    missing = [field for field in known.schema.fields if field.name not in rows.columns]
    nulls = (lit(None).cast(field.dataType).alias(field.name) for field in missing)
    return known.unionByName(rows.select(*map(col, rows.columns), *nulls).select(*COLUMNS))
