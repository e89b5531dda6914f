"""The metadata log, the one way to change the metadata image: alone, shared, or followed."""

from kohort.server.topics.followed_metadata import FollowedMetadata
from kohort.server.topics.metadata_log import METADATA_LOG, Metadata, MetadataLog
from kohort.server.topics.shared_metadata import OutcomeLostError, SharedMetadata

__all__ = [
    "METADATA_LOG",
    "FollowedMetadata",
    "Metadata",
    "MetadataLog",
    "OutcomeLostError",
    "SharedMetadata",
]
