"""Retention: selects the segments to delete by age and size (policy "delete") or start offset.

Segments are deleted whole and oldest first. A segment is too old when its newest record is older
than `retention.ms`, by its timestamp, or by the time of its last append if records have none. A
segment is too much when the log without it still has `retention.bytes`.
"""

from collections.abc import Sequence

from kohort.log.base import LogConfig
from kohort.log.segment import Segment


def due_segments(
    segments: Sequence[Segment], config: LogConfig, start_offset: int, now: int
) -> int:
    """Number of leading segments to delete, including the active one if it has records."""
    due = 0
    while due + 1 < len(segments) and segments[due + 1].base_offset <= start_offset:
        due += 1
    if "delete" not in config.cleanup_policy:
        return due
    if config.retention_ms >= 0:
        while (
            due < len(segments) and segments[due].size and _is_expired(segments[due], config, now)
        ):
            due += 1
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[due:]) - config.retention_bytes
        while due < len(segments) and 0 < segments[due].size <= excess:
            excess -= segments[due].size
            due += 1
    return due


def _is_expired(segment: Segment, config: LogConfig, now: int) -> bool:
    newest = segment.max_timestamp
    return now - (newest if newest >= 0 else segment.modified) > config.retention_ms
