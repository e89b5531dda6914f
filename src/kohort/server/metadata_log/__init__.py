"""The metadata log, the one way to change the metadata image: local, shared, or followed."""

from kohort.server.metadata_log.followed import FollowedMetadataLog
from kohort.server.metadata_log.local import METADATA_LOG_CONFIG, LocalMetadataLog, MetadataLog
from kohort.server.metadata_log.shared import OutcomeLostError, SharedMetadataLog

__all__ = [
    "METADATA_LOG_CONFIG",
    "FollowedMetadataLog",
    "LocalMetadataLog",
    "MetadataLog",
    "OutcomeLostError",
    "SharedMetadataLog",
]
