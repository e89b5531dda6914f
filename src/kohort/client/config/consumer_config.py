"""The configuration of a Consumer: Java's names and defaults, checked on creation."""

from dataclasses import dataclass
from typing import Literal

from kohort.client.config.client_config import (
    MAX_MS,
    validate_flag,
    validate_int,
    validate_one_of,
    validate_text,
)
from kohort.client.config.start_offset import StartOffset, plain_start_offset
from kohort.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """A consumer's configuration, sizes in bytes. Raises ConfigError, whose text has the remedy.

    The bounds of fetches are checked by `Fetcher`.
    """

    group_id: str | None = None
    """Where offsets are committed; None: nowhere."""
    start_offset: StartOffset = "first"
    """Start offset without a committed one, and new position if an offset is out of range.

    `first`, `last` (also Kafka's `earliest`, `latest`), a timestamp in ms (out of range: `first`),
    or `none`: OffsetOutOfRangeError, and ConfigError of `assign`. Kafka's name of the option is
    accepted too: `auto_offset_reset`.
    """
    enable_auto_commit: bool = False
    auto_commit_interval_ms: int = 5_000
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    client_rack: str = ""

    def __post_init__(self) -> None:
        if self.group_id is not None:
            validate_text("group_id", self.group_id)
        validate_text("client_rack", self.client_rack)
        plain_start_offset(self.start_offset)
        isolation_levels = ("read_uncommitted", "read_committed")
        validate_one_of("isolation_level", self.isolation_level, isolation_levels)
        validate_flag("enable_auto_commit", self.enable_auto_commit)
        if self.enable_auto_commit and self.group_id is None:
            raise ConfigError("enable_auto_commit needs a group_id: where to commit")
        if self.group_id == "":
            raise ConfigError("group_id is empty: give a name, or None to commit nothing")
        validate_int("auto_commit_interval_ms", self.auto_commit_interval_ms, 1, MAX_MS)

    @property
    def start(self) -> Literal["first", "last", "none"] | int:
        """`start_offset` without synonyms."""
        return plain_start_offset(self.start_offset)
