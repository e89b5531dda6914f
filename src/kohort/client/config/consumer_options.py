"""The options of `Consumer`, as type checkers and editors see them.

`ConsumerConfig` and `ClientConfig` have their meanings and defaults.
"""

from typing import Literal

from kohort.client.config.client_options import ReaderOptions
from kohort.client.config.start_offset import StartOffset


class ConsumerOptions(ReaderOptions, total=False):
    """The fields of `ConsumerConfig` and `ClientConfig`."""

    group_id: str | None
    start_offset: StartOffset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    client_rack: str
