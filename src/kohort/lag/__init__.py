"""Lag of a group in one partition at one moment: in records, in time, and its trend.

All that shows a lag computes it here, so that no two figures differ: the command line, Admin,
metrics and the HTTP port of the server, and the history of groups. Pure: time is an argument, and
nothing is fetched. No figure is NaN or negative, but the velocity of a lag that falls.
"""

from kohort.lag.records import NOT_FETCHED, Case, NextRecord, RecordsLag, records_lag
from kohort.lag.times import (
    NOTHING_UNREAD,
    UNKNOWN_TIME,
    EndSample,
    Method,
    TimeLag,
    lag_by_index,
    lag_by_record,
    lag_by_samples,
    time_lag,
)
from kohort.lag.trend import NO_TREND, Direction, LagPoint, Trend, lag_trend

__all__ = [
    "NOTHING_UNREAD",
    "NOT_FETCHED",
    "NO_TREND",
    "UNKNOWN_TIME",
    "Case",
    "Direction",
    "EndSample",
    "LagPoint",
    "Method",
    "NextRecord",
    "RecordsLag",
    "TimeLag",
    "Trend",
    "lag_by_index",
    "lag_by_record",
    "lag_by_samples",
    "lag_trend",
    "records_lag",
    "time_lag",
]
