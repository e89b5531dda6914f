"""Administration of groups, offsets, topics, configs and brokers."""

from kohort.client.admin.admin import Admin, partition_lags
from kohort.client.admin.config_apis import ConfigEntry, ConfigResource, ResourceType
from kohort.client.admin.lag import PartitionLag
from kohort.client.admin.log_apis import LogDirectory
from kohort.client.admin.quota_apis import QuotaEntity, QuotaEntityType
from kohort.client.admin.time_lags import TimeLags
from kohort.client.admin.transaction_values import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
)
from kohort.client.admin.values import (
    CLASSIC,
    CONSUMER,
    GROUP_STATES,
    GROUP_TYPES,
    WITHOUT_MEMBERS,
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from kohort.security.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
)
from kohort.security.acls import ResourceType as AclResourceType

__all__ = [
    "CLASSIC",
    "CONSUMER",
    "GROUP_STATES",
    "GROUP_TYPES",
    "WITHOUT_MEMBERS",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "Admin",
    "ConfigEntry",
    "ConfigResource",
    "GroupDescription",
    "GroupListing",
    "HangingTransaction",
    "LogDirectory",
    "MemberDescription",
    "PartitionLag",
    "PatternType",
    "ProducerState",
    "QuotaEntity",
    "QuotaEntityType",
    "ResourceType",
    "TimeLags",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "partition_lags",
]
