"""Status of partitions of groups at a moment, by the lags up to there.

Of Burrow's rules, those that told false alarms or missed are sharper. The first that fits:

| status | rule |
|---|---|
| `unknown` | there is no sample near the moment, the topic was recreated, or records are missing |
| `stopped` | no commit for 60 s and 5 usual gaps, and a record is unread for as long |
| `empty` | the same, and the group has no members |
| `rewind` | the offset is lower than one of the last ten commits, and has not passed it again |
| `stall` | ten commits of one offset, while records were produced that are unread |
| `loss` | retention has removed unread records, or does so within 6 hours |
| `warn` | lag over 1,000 records, over 60 s and over 2 usual gaps, and it grows |
| `ok` | none of them |

Commits count that are a second or more apart. A lag is that of the last sample: a group that
committed since may be better than its status.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.columnar.commit_tables import NONE
from kohort.history.numbering import (
    Numbers,
    distinct,
    integers,
    milliseconds,
    names_in,
    places_of,
)
from kohort.history.sample_rows import GRID
from kohort.history.schema import STATUS, TIME

STATUSES: Final = ("ok", "warn", "loss", "stall", "rewind", "empty", "stopped", "unknown")
"""Their order is that of the rules, backwards."""
REPEATS: Final = 9
"""Of ten commits, nine repeat the first."""
_EMPTY, _STOPPED, _UNKNOWN = map(STATUSES.index, ("empty", "stopped", "unknown"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusLimits:
    """From where on a status is no longer `ok`."""

    lag: int = 1_000
    """Records; of `warn`."""
    lag_ms: int = 60_000
    """Of `warn`. A lag in time that is not known is over it."""
    lag_gaps: int = 2
    """Of `warn`, in usual gaps between commits: between two of them the lag grows."""
    silence_ms: int = 60_000
    """Of `stopped`."""
    silent_gaps: int = 5
    """Of `stopped`, in usual gaps between commits."""
    loss_ms: int = 6 * 3_600_000
    """Of `loss`."""
    age_ms: int = 15 * 60_000
    """Time since the last row of a lag after which it is `unknown`; sampled."""
    grid_age_ms: int = 6 * 3_600_000
    """The same for rows of a grid, which are further apart."""


LIMITS: Final = StatusLimits()


def status_table(
    lags: pa.Table,
    at: datetime,
    *,
    empty_groups: Collection[str] = (),
    unknown_groups: Collection[str] = (),
    limits: StatusLimits = LIMITS,
) -> pa.Table:
    """The status at `at` of each partition that was committed then, as rows of STATUS.

    `lags`: rows of LAG in any order, of which the last one of each partition counts up to `at`.
    `empty_groups` have no members at `at`. Of `unknown_groups` records are missing. A partition
    whose offset was removed has no row.
    """
    rows = _last(lags.filter(pc.less_equal(lags["time"], pa.scalar(at, TIME))))
    rows = rows.filter(pc.is_valid(rows["commit_time"]))  # not those of tombstones
    statuses = _statuses(rows, round(at.timestamp() * 1000), limits)
    statuses[_is_in(rows, empty_groups) & (statuses == _STOPPED)] = _EMPTY
    statuses[_is_in(rows, unknown_groups)] = _UNKNOWN
    columns = {name: rows[name] for name in rows.schema.names}
    columns["status"] = pa.array(STATUSES).take(pa.array(statuses))
    return pa.table([columns[name] for name in STATUS.names], schema=STATUS)


def _last(lags: pa.Table) -> pa.Table:
    """The last row of each partition of each group, in their order."""
    groups, topics = names_in(lags["group"]), names_in(lags["topic"])
    keys, key = distinct(
        places_of(lags["group"], groups),
        places_of(lags["topic"], topics),
        integers(lags["partition"]),
    )
    order = np.lexsort((integers(lags["time"]), key))
    ends = np.searchsorted(key[order], np.arange(keys.shape[1]), side="right")
    return lags.take(pa.array(order[ends - 1]))


def _statuses(rows: pa.Table, at_ms: int, limits: StatusLimits) -> Numbers:
    """The place in STATUSES of each row."""
    lag, lag_ms = integers(rows["lag"]), integers(rows["lag_ms"])
    gap = np.maximum(integers(rows["commit_gap_ms"]), 0)
    is_grid = pc.equal(rows["method"], GRID).to_numpy()
    age = at_ms - milliseconds(rows["time"])
    silence = at_ms - milliseconds(rows["commit_time"])
    loss_ms = integers(rows["loss_ms"])
    is_growing = pc.fill_null(pc.equal(rows["trend"], "growing"), False).to_numpy()
    rules = {
        "warn": (lag > limits.lag)
        & ((lag_ms == NONE) | (lag_ms > np.maximum(limits.lag_ms, limits.lag_gaps * gap)))
        & is_growing,
        "loss": (integers(rows["lost"]) > 0)
        | ((loss_ms != NONE) & (loss_ms < limits.loss_ms) & (lag > 0)),
        "stall": are_stalled(lag, integers(rows["repeats"]), integers(rows["grown_repeated"])),
        "rewind": integers(rows["rewound"]) > 0,
        "stopped": are_stopped(
            lag,
            integers(rows["grown"]),
            silence,
            np.where(lag_ms == NONE, NONE, lag_ms + age),
            np.maximum(limits.silence_ms, limits.silent_gaps * gap),
        ),
        "unknown": (lag == NONE) | (age > np.where(is_grid, limits.grid_age_ms, limits.age_ms)),
    }
    statuses = np.zeros(rows.num_rows, np.int64)
    for status, fits in rules.items():
        statuses[fits] = STATUSES.index(status)
    return statuses


def are_stalled(lag: Numbers, repeats: Numbers, grown_repeated: Numbers) -> Numbers:
    """Whether ten commits of one offset were made, while records came that are unread."""
    return (lag > 0) & (repeats >= REPEATS) & (grown_repeated > 0)


def are_stopped(
    lag: Numbers, grown: Numbers, silence: Numbers, unread: Numbers, most: Numbers
) -> Numbers:
    """Whether the last commit is longer ago than `most`, while records came that are unread.

    `unread`: how long the oldest of them waits, negative if that is not known. Where records come
    rarely, the last commit is long ago when one comes.
    """
    waits = (unread < 0) | (unread > most)
    return (lag > 0) & (grown > 0) & (silence > most) & waits


def _is_in(rows: pa.Table, groups: Collection[str]) -> Numbers:
    found: Numbers = pc.is_in(rows["group"], pa.array(list(groups), pa.string())).to_numpy()
    return found
