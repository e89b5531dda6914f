"""The metadata log: its records, their bytes, and the state that they give. No I/O."""

from kohort.server.metadata.batches import BATCH_RECORDS, decode_batches, encode_batch, in_batches
from kohort.server.metadata.codec import UndecodableError, encode
from kohort.server.metadata.errors import SupersededError, storage_error
from kohort.server.metadata.image import MetadataImage
from kohort.server.metadata.logged_partitions import read_logged_partitions
from kohort.server.metadata.records import (
    METADATA,
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClusterIdRecord,
    ConfigRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    ScramSecretRecord,
    TopicRecord,
    UserScramCredentialRecord,
    partitions_of,
)
from kohort.server.metadata.snapshots import difference, records_of
from kohort.server.metadata.topic_names import (
    INTERNAL,
    MAX_NAME_LENGTH,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    validate_creatable,
    validate_name,
)

__all__ = [
    "BATCH_RECORDS",
    "INTERNAL",
    "MAX_NAME_LENGTH",
    "METADATA",
    "OFFSETS_TOPIC",
    "TRANSACTIONS_TOPIC",
    "AccessControlEntryRecord",
    "ClientQuotaRecord",
    "ClusterIdRecord",
    "ConfigRecord",
    "MetadataImage",
    "MetadataRecord",
    "ProducerIdsRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveTopicRecord",
    "ScramSecretRecord",
    "SupersededError",
    "TopicRecord",
    "UndecodableError",
    "UserScramCredentialRecord",
    "decode_batches",
    "difference",
    "encode",
    "encode_batch",
    "in_batches",
    "partitions_of",
    "read_logged_partitions",
    "records_of",
    "storage_error",
    "validate_creatable",
    "validate_name",
]
