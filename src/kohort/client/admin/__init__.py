"""Administration of groups, offsets and topics."""

from kohort.client.admin.admin import Admin, partition_lags
from kohort.client.admin.lag import PartitionLag
from kohort.client.admin.values import (
    CONSUMER,
    GROUP_STATES,
    GROUP_TYPES,
    WITHOUT_MEMBERS,
    GroupDescription,
    GroupListing,
    MemberDescription,
)

__all__ = [
    "CONSUMER",
    "GROUP_STATES",
    "GROUP_TYPES",
    "WITHOUT_MEMBERS",
    "Admin",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "PartitionLag",
    "partition_lags",
]
