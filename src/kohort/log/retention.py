"""Retention: selects the segments to delete by age and size (policy "delete") or start offset.

Segments are deleted whole and oldest first. A segment is too old when its newest record is older
than `retention.ms`, by its timestamp, or by the time of its last append if records have none. A
segment is too much when the log without it still has `retention.bytes`.
"""

from kohort.log.base import LogConfig
from kohort.log.segment import Segment


def is_due(
    segment: Segment,
    following: Segment | None,
    size: int,
    config: LogConfig,
    start_offset: int,
    now: int,
) -> bool:
    """Whether the first segment of a log of `size` bytes is to be deleted.

    `following` is the one behind it. Without, it is the active one, which goes if it has records.
    """
    if following is not None and following.base_offset <= start_offset:
        return True
    if "delete" not in config.cleanup_policy or not segment.size:
        return False
    if config.retention_ms >= 0 and _is_expired(segment, config, now):
        return True
    return 0 <= config.retention_bytes <= size - segment.size


def _is_expired(segment: Segment, config: LogConfig, now: int) -> bool:
    newest = segment.max_timestamp
    return now - (newest if newest >= 0 else segment.modified) > config.retention_ms
