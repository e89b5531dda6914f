"""The options of `ConsumerGroup`, as type checkers and editors see them.

`GroupConfig` and `ClientConfig` have their meanings and defaults.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from kohort.assignors.base import Assignor
from kohort.client.config.client_options import ReaderOptions
from kohort.client.config.group_config import GroupEvent
from kohort.client.config.start_offset import StartOffset


class GroupOptions(ReaderOptions, total=False):
    """The fields of `GroupConfig` and `ClientConfig`."""

    instance_id: str | None
    rack: str | None
    protocol: Literal["classic", "consumer", "auto"]
    remote_assignor: str | None
    assignors: Sequence[str | Assignor]
    heartbeat_interval_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    join_group_backoff_ms: int
    retry_timeout_ms: int
    drain_timeout_ms: int | None
    max_poll_interval_ms: int | None
    partition_watch_interval_ms: int
    start_offset: StartOffset
    commit_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    retention_ms: int
    leave_group_on_close: bool | None
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    on_event: Callable[[GroupEvent], None] | None
