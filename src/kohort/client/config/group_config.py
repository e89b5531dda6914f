"""The configuration of a group member: Kafka's names with underscores, times in ms.

Every value is checked on creation. So a mistake is reported before the first connection, and not by
a broker an hour later.

Defaults are kafka-go's where it has them (heartbeat 3 s, session 30 s, rebalance 30 s, backoff 5 s,
partition watch 5 s, start at the first offset), else those of Java's consumer.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kohort.assignors.base import Assignor
from kohort.client.config.client_config import (
    MAX_MS,
    validate_flag,
    validate_int,
    validate_names,
    validate_one_of,
    validate_text,
)
from kohort.client.config.start_offset import StartOffset, plain_start_offset
from kohort.client.properties import checks_arguments
from kohort.errors import ConfigError

INT64_MAX: Final = 2**63 - 1
_MAX_ID: Final = 249
"""Most characters of a group or instance id: Kafka's limit of a topic name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """The argument of `on_event`."""

    what: str
    """Kind of the event.

    One of `join`, `generation`, `rebalance`, `lost`, `retry`, `heartbeat failed`, `waiting`,
    `commit failed`, `topics`, `missing`, `idle`, `unavailable`, `stuck`, `left`.
    """
    group_id: str
    member_id: str
    generation: int
    detail: str


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A member's configuration. Raises ConfigError, whose text has the remedy."""

    group_id: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    """Instead of `topics`: a regular expression for the whole name; internal topics never match."""
    instance_id: str | None = None
    """`group.instance.id` of a static member (KIP-345).

    A member that restarts within the session timeout keeps its partitions without a rebalance.
    """
    rack: str | None = None
    """`client.rack`: where this member runs (KIP-881)."""
    protocol: Literal["classic", "consumer", "auto"] = "classic"
    """`group.protocol`: `consumer` is the protocol of KIP-848, of Apache Kafka since 4.0.

    `auto` takes it if the brokers have it. The coordinator then computes assignments and has the
    timeouts: `assignors` and `heartbeat_interval_ms` do not apply, and `pattern` is a regular
    expression of RE2.
    """
    remote_assignor: str | None = None
    """`group.remote.assignor` of the consumer protocol, such as `uniform` or `range`.

    None: the coordinator's default.
    """
    assignors: Sequence[str | Assignor] = ("range", "cooperative-sticky")
    """`partition.assignment.strategy`, in the order of preference.

    With only `cooperative-sticky` rebalances are cooperative; with any eager assignor they are
    eager, as in Java.
    """
    heartbeat_interval_ms: int = 3_000
    session_timeout_ms: int = 30_000
    """In the consumer protocol the coordinator has its own timeout, at least 45 s by default.

    There the member gives its partitions up after so long without a response; at least three
    heartbeat intervals.
    """
    rebalance_timeout_ms: int = 30_000
    """How long the group waits for this member to rejoin, or to give up revoked partitions."""
    join_group_backoff_ms: int = 5_000
    """The longest pause before a failed join is tried again; the first pauses are shorter."""
    retry_timeout_ms: int = 120_000
    """How long the first join may fail with retriable errors before an error is raised.

    After the first join the member retries without limit, with an `unavailable` event at this
    interval.
    """
    drain_timeout_ms: int | None = None
    """How long work may continue after a revocation; None: two thirds of the rebalance timeout."""
    max_poll_interval_ms: int | None = None
    """How long one batch may take before its task counts as stuck; None: no limit."""
    partition_watch_interval_ms: int = 5_000
    """How often topics are checked for changes; 0: never."""
    start_offset: StartOffset = "first"
    """Where a partition without a committed offset, or with one out of range, begins.

    `first`, `last` (also Kafka's `earliest`, `latest`), a timestamp in ms, or `none`: an error.
    Kafka's name of the option is accepted too: `auto_offset_reset`.
    """
    commit_interval_ms: int = 0
    """0: `commit` returns once the broker has the offsets.

    Else it returns at once. Offsets are sent at this interval, on revocation, and when the member
    leaves.
    """
    enable_auto_commit: bool = False
    """`enable.auto.commit`: commit the records that the iteration over `records` has passed."""
    auto_commit_interval_ms: int = 5_000
    """`auto.commit.interval.ms`; also commits on revocation, and when the member leaves."""
    retention_ms: int = -1
    """How long the broker keeps committed offsets; -1: as the broker is configured.

    Needs a broker that still accepts OffsetCommit v4.
    """
    leave_group_on_close: bool | None = None
    """Whether closing sends LeaveGroup; None: if the member is not static, as in Java.

    In the consumer protocol a static member then leaves for a while (epoch -2): its partitions
    wait for its return, until the session timeout.
    """
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    on_event: Callable[[GroupEvent], None] | None = None
    """Called from the event loop with every event that may concern an operator."""

    def __post_init__(self) -> None:
        _check_id("group_id", self.group_id)
        if self.instance_id is not None:
            _check_id("instance_id", self.instance_id)
        self._check_protocol()
        self._check_topics()
        self._check_flags()
        self._check_durations()
        self._check_rest()

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def drain_ms(self) -> int:
        """The drain timeout, with the default filled in."""
        if self.drain_timeout_ms is not None:
            return self.drain_timeout_ms
        longest = max(self.rebalance_timeout_ms - self.heartbeat_interval_ms, 0)
        return min(self.rebalance_timeout_ms * 2 // 3, longest)

    @property
    def start(self) -> Literal["first", "last", "none"] | int:
        """`start_offset` without synonyms."""
        return plain_start_offset(self.start_offset)

    @property
    def marked_commit_interval_ms(self) -> int:
        """Interval of commits without waiting; 0: every commit waits."""
        return self.commit_interval_ms or self.auto_commit_interval_ms * self.enable_auto_commit

    @property
    def sends_leave(self) -> bool:
        return (
            not self.is_static if self.leave_group_on_close is None else self.leave_group_on_close
        )

    def _check_topics(self) -> None:
        validate_names("topics", self.topics)
        if self.pattern is not None:
            validate_text("pattern", self.pattern)
        if bool(self.topics) == (self.pattern is not None):
            raise ConfigError(
                "topics, pattern: name the topics to subscribe to, or a pattern; one of the two"
            )
        if not all(self.topics):
            raise ConfigError(f"topics: {list(self.topics)} has an empty name")
        if self.pattern is not None and self.protocol != "consumer":
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ConfigError(
                    f"pattern: {self.pattern!r} is no regular expression: {error}"
                ) from None

    def _check_protocol(self) -> None:
        validate_one_of("protocol", self.protocol, ("classic", "consumer", "auto"))
        if self.remote_assignor is not None:
            validate_text("remote_assignor", self.remote_assignor)
        if self.protocol == "classic" and self.remote_assignor is not None:
            raise ConfigError(
                "remote_assignor: only the consumer protocol has assignors of the coordinator; "
                "set protocol='consumer', or name assignors"
            )
        if self.protocol != "classic" and self.retention_ms != -1:
            raise ConfigError("retention_ms: the consumer protocol has no retention of commits")

    def _check_flags(self) -> None:
        for name in ("enable_auto_commit", "check_crcs"):
            validate_flag(name, getattr(self, name))
        if self.leave_group_on_close is not None:
            validate_flag("leave_group_on_close", self.leave_group_on_close)
        if self.on_event is not None and not callable(self.on_event):
            raise ConfigError(f"on_event is {self.on_event!r}; it has to be a function")

    def _check_durations(self) -> None:
        for name in (
            "heartbeat_interval_ms",
            "session_timeout_ms",
            "rebalance_timeout_ms",
            "retry_timeout_ms",
            "auto_commit_interval_ms",
            "fetch_min_bytes",
            "fetch_max_bytes",
            "max_partition_fetch_bytes",
        ):
            validate_int(name, getattr(self, name), 1, MAX_MS)
        for name in (
            "join_group_backoff_ms",
            "partition_watch_interval_ms",
            "commit_interval_ms",
            "fetch_max_wait_ms",
        ):
            validate_int(name, getattr(self, name), 0, MAX_MS)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms: {self.heartbeat_interval_ms} must be less than "
                "session_timeout_ms, "
                f"{self.session_timeout_ms}; a third of it is usual"
            )
        if self.max_poll_interval_ms is not None:
            validate_int("max_poll_interval_ms", self.max_poll_interval_ms, 1, MAX_MS)
        if self.drain_timeout_ms is not None:
            validate_int("drain_timeout_ms", self.drain_timeout_ms, 0, MAX_MS)
            longest = self.rebalance_timeout_ms - self.heartbeat_interval_ms
            if self.drain_timeout_ms > longest:
                raise ConfigError(
                    f"drain_timeout_ms: {self.drain_timeout_ms} must be from 0 to "
                    f"{longest}: a heartbeat interval less "
                    "than rebalance_timeout_ms, or the group continues without this member "
                    "while it drains"
                )

    def _check_rest(self) -> None:
        plain_start_offset(self.start_offset)
        if self.retention_ms != -1:
            validate_int("retention_ms", self.retention_ms, 0, INT64_MAX)
        if not self.assignors:
            raise ConfigError("assignors: at least one is needed, such as 'range'")
        _check_assignors(self.assignors)
        if self.rack is not None:
            validate_text("rack", self.rack)
        if self.isolation_level not in ("read_uncommitted", "read_committed"):
            raise ConfigError(
                f"isolation_level: {self.isolation_level!r} is not read_uncommitted or "
                "read_committed"
            )


def _check_id(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name}: a name is needed, not {value!r}")
    if len(value) > _MAX_ID:
        raise ConfigError(f"{name}: {len(value)} characters are more than {_MAX_ID}")
    validate_text(name, value)


def _check_assignors(assignors: Any) -> None:
    if isinstance(assignors, str):
        raise ConfigError(f"assignors: a list is needed; for the one, write [{assignors!r}]")
    is_list = isinstance(assignors, Collection) and not isinstance(assignors, Mapping)
    if not is_list or not all(isinstance(item, str) or hasattr(item, "name") for item in assignors):
        raise ConfigError(
            f"assignors is {assignors!r}; it has to be a list of names, such as 'range', or of "
            "assignors"
        )
