"""Prints what Kohort's history and other monitors of lag say of the same histories, as Markdown:

    PYTHONPATH=tests python -m peers.lag_table

`lag_monitors` has the rules of the others. The ends of Kohort's history are sampled each 30 s.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any, Final

import pyarrow as pa

from kohort.history.lag import lag_table
from kohort.history.schema import COMMITS, SAMPLES
from kohort.history.status import status_table
from peers.lag_monitors import Commit, Ends, Scene, burrow, kafka_lag_exporter, klag

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
RATE: Final = 5
"""Records/s, where nothing else is said."""
SAMPLE_S: Final = 30
START: Final = datetime(2026, 1, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time at which all are asked."""

    at: int
    history: str
    truth: str
    """What an operator who saw all would say."""


@dataclass(frozen=True, slots=True)
class Story:
    """A scene, and when it is telling."""

    scene: Scene
    moments: Sequence[Moment]


# --- how topics grow and consumers commit


def growing(at: int) -> Ends:
    return Ends(0, RATE * at)


def resting_at(time: int) -> Callable[[int], Ends]:
    """Records come until a time."""
    return lambda at: Ends(0, RATE * min(at, time))


def following(
    until: int, *, since: int = 0, every: int = 10, behind: Iterable[int] = (2, 4, 3, 5)
) -> list[Commit]:
    """Commits of a consumer that has read all but the records of the last seconds, in turn."""
    return [
        Commit(time, RATE * max(time - delay, 0))
        for time, delay in zip(range(since + every, until + 1, every), cycle(behind), strict=False)
    ]


def reading(
    since: int, until: int, offset: int, rate: float, *, uneven: Sequence[int] = (0,)
) -> list[Commit]:
    """Commits, each 10 s, of one that reads so many records a second from an offset on.

    `uneven`: seconds' worth of records that are not committed yet, in turn.
    """
    return [
        Commit(time, offset + int(rate * max(time - since - delay, 0)))
        for time, delay in zip(range(since + 10, until + 1, 10), cycle(uneven), strict=False)
    ]


# --- the histories


def stories() -> Iterator[Story]:
    yield _idle()
    yield _gone_without_lag()
    yield _hung()
    yield _rare_commits()
    yield from _markers()
    yield _compacted()
    yield _slow_beside_retention()
    yield _burst()
    yield _without_commit()
    yield _rewound()
    yield _poisoned()
    yield _uneven()


def _idle() -> Story:
    def ends(at: int) -> Ends:
        return Ends(0, RATE * min(at, 10 * MINUTE) + (at >= DAY))

    name = "a record comes after a day of rest"
    return Story(
        Scene(commits=[*following(600), Commit(610, 3_000), Commit(DAY + 55, 3_001)], ends=ends),
        [
            Moment(at=23 * HOUR, history="a topic at rest, its last commit is 23 h old",
                   truth="all is read"),
            Moment(at=DAY + 30, history=name, truth="one record waits for 30 s"),
            Moment(at=DAY + 60, history="5 s after it is committed", truth="all is read"),
        ],
    )  # fmt: skip


def _gone_without_lag() -> Story:
    commits = [*following(HOUR - 10), Commit(HOUR, RATE * (HOUR - 5))]
    return Story(
        Scene(commits=commits, ends=resting_at(HOUR - 5), left_at=HOUR + 1),
        [Moment(at=2 * HOUR, history="the consumer left an hour ago, no record came since",
                truth="nothing waits; nobody is there")],
    )  # fmt: skip


def _hung() -> Story:
    return Story(
        Scene(commits=following(HOUR), ends=growing),
        [
            Moment(at=HOUR - 30, history="a consumer that follows", truth="fine"),
            Moment(at=HOUR + 120, history="it hangs for 2 min", truth="it has stopped"),
        ],
    )


def _rare_commits() -> Story:
    commits = following(3 * HOUR, every=600)
    return Story(
        Scene(commits=commits, ends=growing),
        [
            Moment(at=3 * HOUR - 60, history="commits each 10 min, 9 min after the last",
                   truth="fine"),
            Moment(at=4 * HOUR, history="the same consumer hangs for an hour",
                   truth="it has stopped"),
        ],
    )  # fmt: skip


def _markers() -> Iterator[Story]:
    """A transaction each 10 s: a record, and a marker after it. All is read, up to the marker."""

    def ends(at: int) -> Ends:
        return Ends(0, 2 * (min(at, HOUR) // 10))

    commits = [Commit(time, 2 * (time // 10) - 1) for time in range(10, HOUR + 1, 10)]
    truth = "all is read; the end is a marker"
    yield Story(
        Scene(commits=commits, ends=ends),
        [
            Moment(
                at=HOUR - 30,
                history="a topic with transactions, a read_committed consumer",
                truth=truth,
            ),
            Moment(at=HOUR + 1_800, history="the same, at rest for 30 min", truth=truth),
        ],
    )

    def late(at: int) -> Ends:
        """Each 30 s a record 2 s before a sample, and its marker 5 s after that sample."""
        return Ends(0, (min(at, HOUR) + 2) // 30 + max((min(at, HOUR + 5) - 5) // 30, 0))

    commits = [Commit(30 * place - 1, 2 * place - 1) for place in range(1, HOUR // 30 + 1)]
    yield Story(
        Scene(commits=commits, ends=late),
        [
            Moment(
                at=HOUR + 1_800,
                history="a read_uncommitted one at rest, a sample is between commit and marker",
                truth=truth,
            )
        ],
    )


def _compacted() -> Story:
    commits = reading(0, 100, 0, 5)
    return Story(
        Scene(commits=commits, ends=lambda at: Ends(0, 1_000)),
        [Moment(at=120, history="reading a compacted topic: of 500 unread offsets 50 are records",
                truth="50 records wait")],
    )  # fmt: skip


def _slow_beside_retention() -> Story:
    """It reads one record a second; retention keeps half an hour."""

    def ends(at: int) -> Ends:
        return Ends(max(RATE * (at // MINUTE * MINUTE - 1_800), 0), RATE * at)

    commits = [*following(HOUR), *reading(HOUR, 3 * HOUR, RATE * (HOUR - 5), 1)]
    return Story(
        Scene(commits=commits, ends=ends),
        [
            Moment(at=HOUR + 1_950, history="a slow consumer, retention is 5 min behind it",
                   truth="records will be lost in 5 min"),
            Moment(at=HOUR + 3_600, history="the same, retention has passed it",
                   truth="records are lost"),
        ],
    )  # fmt: skip


def _burst() -> Story:
    """100,000 records at once; the consumer reads 500 a second."""
    before = RATE * HOUR

    def ends(at: int) -> Ends:
        return Ends(0, RATE * at + (100_000 if at >= HOUR else 0))

    catching = reading(HOUR, HOUR + 200, before, 500)
    after = [Commit(time, RATE * (time - 3) + 100_000) for time in range(HOUR + 210, 2 * HOUR, 10)]
    return Story(
        Scene(commits=[*following(HOUR), *catching, *after], ends=ends),
        [
            Moment(at=HOUR + 120, history="2 min after a burst, the consumer catches up",
                   truth="fine, caught up in 80 s"),
            Moment(at=HOUR + 180, history="3 min after it", truth="fine, caught up in 20 s"),
            Moment(at=HOUR + 600, history="10 min after it", truth="fine"),
        ],
    )  # fmt: skip


def _without_commit() -> Story:
    return Story(
        Scene(commits=[], ends=growing),
        [Moment(at=HOUR, history="a member reads and never commits",
                truth="what it has read is not known")],
    )  # fmt: skip


def _rewound() -> Story:
    """It had read all, and reads again from half of it on, 100 records a second."""
    again = reading(HOUR, HOUR + 600, RATE * HOUR // 2, 100)
    return Story(
        Scene(commits=[*following(HOUR - 10), Commit(HOUR, RATE * HOUR), *again], ends=growing),
        [Moment(at=HOUR + 60, history="a minute after a member set its offset back",
                truth="records are read twice")],
    )  # fmt: skip


def _poisoned() -> Story:
    stuck = [Commit(time, RATE * HOUR) for time in range(HOUR, 2 * HOUR, 10)]
    return Story(
        Scene(commits=[*following(HOUR - 10), *stuck], ends=growing),
        [Moment(at=HOUR + 180, history="one offset is committed again and again for 3 min",
                truth="it is stuck")],
    )  # fmt: skip


def _uneven() -> Story:
    slow = reading(HOUR, 2 * HOUR, RATE * HOUR, 3, uneven=(1, 9, 3, 12))
    return Story(
        Scene(commits=[*following(HOUR), *slow], ends=growing),
        [Moment(at=HOUR + 1_800, history="too slow for 30 min, with uneven commits",
                truth="it falls behind")],
    )  # fmt: skip


# --- what each says


def kohort(scene: Scene, at: int) -> str:
    """Status, lag and lag in time of Kohort's history."""
    commits = [
        {"group": "g", "topic": "t", "partition": 0, "committed": each.offset, "in_force": place,
         "in_force_time": _time(each.time), "kind": "advance"}
        for place, each in enumerate(scene.commits)
        if each.time <= at
    ]  # fmt: skip
    samples = [
        {"topic": "t", "partition": 0, "time": _time(time), "start": scene.ends(time).start,
         "end": scene.ends(time).end, "method": "sampled"}
        for time in range(0, at + 1, SAMPLE_S)
    ]  # fmt: skip
    lags = lag_table(pa.Table.from_pylist(commits, COMMITS), pa.Table.from_pylist(samples, SAMPLES))
    empty = () if scene.has_members(at) else ("g",)
    rows = status_table(lags, _time(at), empty_groups=empty).to_pylist()
    if not rows:
        return "no lag"
    (row,) = rows
    lost = f", {row['lost']:,} lost" if row["lost"] else ""
    lag_s = None if row["lag_ms"] is None else row["lag_ms"] / 1000
    return f"{row['status']}: {_lag(row['lag'], lag_s)}{lost}"


def _time(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def _lag(lag: float, seconds: float | None) -> str:
    return f"{lag:,.0f}" + ("" if seconds is None else f", {seconds:,.0f} s".replace("inf", "+Inf"))


def _exported(scene: Scene, at: int) -> str:
    found = kafka_lag_exporter(scene, at)
    return "NaN" if found.lag != found.lag else _lag(found.lag, found.seconds)


def _watched(scene: Scene, at: int) -> str:
    found = klag(scene, at)
    if found is None:
        return "no metric"
    return f"{', '.join(found.diagnosis) or 'Healthy'}: {_lag(found.lag, found.lag_s)}"


MONITORS: Final[dict[str, Callable[[Scene, int], Any]]] = {
    "Burrow 1.9": burrow,
    "kafka-lag-exporter 0.8": _exported,
    "klag 0.2.5": _watched,
    "Kohort": kohort,
}


def markdown() -> str:
    """The table."""
    header = ["at this moment", "what is so", *MONITORS]
    asked = [(story.scene, moment) for story in stories() for moment in story.moments]
    rows = [
        [moment.history, moment.truth, *(says(scene, moment.at) for says in MONITORS.values())]
        for scene, moment in asked
    ]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(markdown())
