"""The rows of one group, as the rules need them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.findings.catalogue import RULES
from kohort.findings.clients import Client, clients_of, label
from kohort.findings.commit_series import COLUMNS, CommitSeries, series_of
from kohort.findings.finding import Finding, Position, shortened
from kohort.findings.lag_series import Array, EndSeries, LagSeries, ends_of, lags_of
from kohort.findings.thresholds import Thresholds
from kohort.findings.timeline import Change, changes_of

Row: TypeAlias = dict[str, Any]
Found = TypeVar("Found")
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)
DEFAULT_REBALANCE_TIMEOUT_MS: Final = 300_000
"""max.poll.interval.ms, where no member is known."""


class BrokerOptions(Protocol):
    """Configs of the brokers that no record has."""

    @property
    def retention_ms(self) -> int: ...
    @property
    def consumer_session_timeout_ms(self) -> int: ...


class History(Protocol):
    """The rows of a group in a period, as `kohort.history.schema` has them, each table in order.

    `history_files.group_history.GroupHistory` is one.
    """

    @property
    def group(self) -> str: ...
    @property
    def log_partitions(self) -> tuple[int, ...]: ...
    @property
    def since(self) -> datetime | None: ...
    @property
    def generations(self) -> list[Row]: ...
    @property
    def rebalances(self) -> list[Row]: ...
    @property
    def members(self) -> list[Row]: ...
    @property
    def assignments(self) -> list[Row]: ...
    @property
    def commits(self) -> pa.Table: ...
    @property
    def earlier(self) -> pa.Table: ...
    @property
    def open_commits(self) -> pa.Table: ...
    @property
    def minutes(self) -> pa.Table: ...
    @property
    def lag(self) -> pa.Table: ...
    @property
    def samples(self) -> pa.Table: ...
    @property
    def coverage(self) -> list[Row]: ...
    @property
    def options(self) -> BrokerOptions: ...


class Facts:
    """What the rules ask of a group. `at`: the moment that the rows are as of."""

    def __init__(self, history: History, thresholds: Thresholds, at: datetime) -> None:
        self.history = history
        self.thresholds = thresholds
        self.at = at
        self._computed: dict[object, Any] = {}

    def once(self, compute: "Callable[[Facts], Found]") -> Found:
        """What a function finds, which several rules ask for; it is computed once."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        found: Found = self._computed[compute]
        return found

    # --- members

    @cached_property
    def clients(self) -> list[Client]:
        return clients_of(self.history.members)

    @cached_property
    def client_numbers(self) -> Mapping[str, int]:
        """Member id → the number of its client."""
        return {
            row["member_id"]: number
            for number, client in enumerate(self.clients)
            for row in client.members
        }

    @cached_property
    def members(self) -> Mapping[str, Row]:
        """The latest row of each member id."""
        return {row["member_id"]: row for row in self.history.members}

    def label(self, member_id: str) -> str:
        """Name of a member in texts."""
        row = self.members.get(member_id)
        return member_id if row is None else label(row)

    @property
    def present(self) -> list[Row]:
        """Members that are there at the end."""
        return [row for row in self.history.members if row["to"] is None]

    def session_s(self, member: Row) -> float:
        """Session timeout of a member; of KIP-848 that of the brokers."""
        timeout_ms = member["session_timeout_ms"]
        if timeout_ms is None:
            timeout_ms = self.history.options.consumer_session_timeout_ms
        return float(timeout_ms / 1000)

    @cached_property
    def longest_rebalance_ms(self) -> float:
        """The longest that a rebalance can take: the wait for a session, and for members."""
        return max(
            (
                (row["rebalance_timeout_ms"] or DEFAULT_REBALANCE_TIMEOUT_MS)
                + 1000 * self.session_s(row)
                for row in self.history.members
            ),
            default=DEFAULT_REBALANCE_TIMEOUT_MS,
        )

    @cached_property
    def _member_times(self) -> tuple[Array, Array]:
        """When members came, and when members departed, each in order."""
        rows = self.history.members
        begins = np.sort([micros(row["from"]) for row in rows])
        ends = np.sort([micros(row["to"]) for row in rows if row["to"] is not None])
        return begins, ends

    def have_members(self, times_us: Array) -> Array:
        """Whether the group had members, at each of these times."""
        begins, ends = self._member_times
        count = np.searchsorted(begins, times_us, "right") - np.searchsorted(
            ends, times_us, "right"
        )
        return count > 0

    # --- what is known

    @cached_property
    def complete_since(self) -> datetime | None:
        """Time from which on no record is missing; None: at all times."""
        times = [
            _NEVER if row["complete_from_time"] is None else row["complete_from_time"]
            for row in self.history.coverage
            if row["gaps"]
        ]
        return max(times, default=None)

    def is_known_since(self, time: datetime) -> bool:
        """Whether no record is missing from a time on."""
        return self.complete_since is None or self.complete_since <= time

    def are_known(self, times_us: Array) -> Array:
        """Whether records are there of each of these times."""
        since = self.complete_since
        least = np.iinfo(np.int64).min if since is None else micros(since)
        return times_us >= least

    # --- commits and partitions

    @cached_property
    def commits(self) -> pa.Table:
        return self.history.commits.select(COLUMNS)

    @cached_property
    def series(self) -> Mapping[tuple[str, int], CommitSeries]:
        """(topic, partition) → its commits."""
        return series_of(self.commits)

    @cached_property
    def lags(self) -> Mapping[tuple[str, int], LagSeries]:
        """(topic, partition) → its lag at the times of samples."""
        return lags_of(self.history.lag)

    @cached_property
    def ends(self) -> Mapping[tuple[str, int], EndSeries]:
        """(topic, partition) → its samples."""
        return ends_of(self.history.samples)

    @cached_property
    def sampled_partitions(self) -> Mapping[str, set[int]]:
        """Topic → its partitions that samples name."""
        found: dict[str, set[int]] = defaultdict(set)
        for topic, partition in self.ends:
            found[topic].add(partition)
        return found

    @cached_property
    def changes(self) -> list[Change]:
        """Changes of members and owners, in the order of the log."""
        return changes_of(self.history.members, self.history.assignments)

    @cached_property
    def assignments_of(self) -> Mapping[str, list[Row]]:
        """Member id → the partitions that it owned, in order."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.history.assignments:
            found[row["member_id"]].append(row)
        return found

    # --- generations

    @cached_property
    def _generation_offsets(self) -> Mapping[int, tuple[list[int], list[Row]]]:
        found: dict[int, tuple[list[int], list[Row]]] = defaultdict(lambda: ([], []))
        for row in self.history.generations:
            offsets, rows = found[row["log_partition"]]
            offsets.append(row["log_offset"])
            rows.append(row)
        return found

    def generation_at(self, log_partition: int, offset: int) -> Row | None:
        """The generation that a record at this offset is in, if it had not ended before."""
        offsets, rows = self._generation_offsets.get(log_partition, ([], []))
        at = bisect_right(offsets, offset) - 1
        if at < 0:
            return None
        row = rows[at]
        return row if row["ended_offset"] is None or row["ended_offset"] > offset else None

    # --- findings

    def finding(
        self,
        id_: str,
        subject: str,
        since: datetime,
        until: datetime,
        sentence: str,
        evidence: Iterable[Position] = (),
        *,
        severity: str | None = None,
    ) -> Finding:
        """A finding of the rule `id_`: `sentence`, and what to do. `severity`: not the rule's."""
        rule = RULES[id_]
        return Finding(
            id=id_,
            group=self.history.group,
            subject=subject,
            since=since,
            until=max(since, until),
            severity=severity or rule.severity,
            text=f"{sentence}. {rule.advice}",
            evidence=shortened(list(evidence)),
        )


def at_row(row: Row, column: str = "log_offset") -> Position:
    """The position of a row."""
    return Position(row["log_partition"], row[column])


def positions(rows: Sequence[Row], column: str = "log_offset") -> list[Position]:
    return [at_row(row, column) for row in rows if row[column] is not None]


def micros(time: datetime) -> int:
    """Microseconds since the epoch."""
    return (time - EPOCH) // _US


def time_of(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=int(time_us))
