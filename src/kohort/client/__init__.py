"""A client of any Kafka broker: cluster, producer, fetcher, and groups with task scopes.

    from kohort.client import ConsumerGroup, Producer

The names here are the public ones. Each is imported from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kohort.client.admin import (
        Admin,
        ConfigEntry,
        ConfigResource,
        GroupDescription,
        GroupListing,
        LogDirectory,
        MemberDescription,
        PartitionLag,
    )
    from kohort.client.cluster import EARLIEST, LATEST, Cluster, Offset
    from kohort.client.config import ClientConfig, GroupConfig, GroupEvent, GroupOptions
    from kohort.client.consumer import Consumer
    from kohort.client.errors import (
        AuthenticationError,
        BrokerUnreachableError,
        BufferFullError,
        ClientClosedError,
        CommitUnknownError,
        DeliveryTimeoutError,
        DeserializationError,
        GaveUpError,
        LogTruncatedError,
        NotAssignedError,
        OffsetOutOfRangeError,
        ProducerFencedError,
        RequestTimeoutError,
        SerializationError,
        TopicRecreatedError,
        TransactionAbortedError,
        TransactionError,
        UndeliveredError,
        UnsupportedVersionError,
    )
    from kohort.client.fetch import Batch, Fetcher
    from kohort.client.group import ConsumerGroup, Generation, GroupClosedError
    from kohort.client.group_errors import (
        CommitError,
        CoordinatorUnavailableError,
        GenerationEndedError,
        GroupError,
        StuckError,
    )
    from kohort.client.group_metadata import GroupMetadata
    from kohort.client.membership import End
    from kohort.client.offset_and_metadata import OffsetAndMetadata
    from kohort.client.produce import DeadLetters, Delivery, Producer, RecordMetadata, Transaction
    from kohort.client.record import Record
    from kohort.client.security import Security
    from kohort.client.serialization import Deserializer, SerializationContext, Serializer
    from kohort.client.transaction_outcome import TransactionOutcome
    from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
    from kohort.types import TopicPartition

_MODULES: Final = {
    "EARLIEST": "kohort.client.cluster.offsets",
    "LATEST": "kohort.client.cluster.offsets",
    "Admin": "kohort.client.admin.admin",
    "AuthenticationError": "kohort.client.errors",
    "Batch": "kohort.client.fetch.batch",
    "BrokerUnreachableError": "kohort.client.errors",
    "BufferFullError": "kohort.client.errors",
    "ClientClosedError": "kohort.client.errors",
    "ClientConfig": "kohort.client.config.client_config",
    "Cluster": "kohort.client.cluster.cluster",
    "CommitError": "kohort.client.group_errors",
    "CommitUnknownError": "kohort.client.errors",
    "ConfigEntry": "kohort.client.admin.config_apis",
    "ConfigError": "kohort.errors",
    "ConfigResource": "kohort.client.admin.config_apis",
    "Consumer": "kohort.client.consumer",
    "ConsumerGroup": "kohort.client.group.group",
    "CoordinatorUnavailableError": "kohort.client.group_errors",
    "DeadLetters": "kohort.client.produce.dead_letters",
    "Delivery": "kohort.client.produce.delivery",
    "DeliveryTimeoutError": "kohort.client.errors",
    "DeserializationError": "kohort.client.errors",
    "Deserializer": "kohort.client.serialization",
    "End": "kohort.client.membership.events",
    "ErrorCode": "kohort.errors",
    "Fetcher": "kohort.client.fetch.fetcher",
    "GaveUpError": "kohort.client.errors",
    "Generation": "kohort.client.group.generation",
    "GenerationEndedError": "kohort.client.group_errors",
    "GroupClosedError": "kohort.client.group.group",
    "GroupConfig": "kohort.client.config.group_config",
    "GroupDescription": "kohort.client.admin.values",
    "GroupError": "kohort.client.group_errors",
    "GroupEvent": "kohort.client.config.group_config",
    "GroupListing": "kohort.client.admin.values",
    "GroupMetadata": "kohort.client.group_metadata",
    "GroupOptions": "kohort.client.config.group_options",
    "KafkaError": "kohort.errors",
    "KohortError": "kohort.errors",
    "LogDirectory": "kohort.client.admin.log_apis",
    "LogTruncatedError": "kohort.client.errors",
    "MemberDescription": "kohort.client.admin.values",
    "NotAssignedError": "kohort.client.errors",
    "Offset": "kohort.client.cluster.offsets",
    "OffsetAndMetadata": "kohort.client.offset_and_metadata",
    "OffsetOutOfRangeError": "kohort.client.errors",
    "PartitionLag": "kohort.client.admin.lag",
    "Producer": "kohort.client.produce.producer",
    "ProducerFencedError": "kohort.client.errors",
    "Record": "kohort.client.record",
    "RecordMetadata": "kohort.client.produce.delivery",
    "RequestTimeoutError": "kohort.client.errors",
    "Security": "kohort.client.security.settings",
    "SerializationContext": "kohort.client.serialization",
    "SerializationError": "kohort.client.errors",
    "Serializer": "kohort.client.serialization",
    "StuckError": "kohort.client.group_errors",
    "TopicPartition": "kohort.types",
    "TopicRecreatedError": "kohort.client.errors",
    "Transaction": "kohort.client.produce.transaction",
    "TransactionAbortedError": "kohort.client.errors",
    "TransactionError": "kohort.client.errors",
    "TransactionOutcome": "kohort.client.transaction_outcome",
    "UndeliveredError": "kohort.client.errors",
    "UnsupportedVersionError": "kohort.client.errors",
}

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "AuthenticationError",
    "Batch",
    "BrokerUnreachableError",
    "BufferFullError",
    "ClientClosedError",
    "ClientConfig",
    "Cluster",
    "CommitError",
    "CommitUnknownError",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "Consumer",
    "ConsumerGroup",
    "CoordinatorUnavailableError",
    "DeadLetters",
    "Delivery",
    "DeliveryTimeoutError",
    "DeserializationError",
    "Deserializer",
    "End",
    "ErrorCode",
    "Fetcher",
    "GaveUpError",
    "Generation",
    "GenerationEndedError",
    "GroupClosedError",
    "GroupConfig",
    "GroupDescription",
    "GroupError",
    "GroupEvent",
    "GroupListing",
    "GroupMetadata",
    "GroupOptions",
    "KafkaError",
    "KohortError",
    "LogDirectory",
    "LogTruncatedError",
    "MemberDescription",
    "NotAssignedError",
    "Offset",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "PartitionLag",
    "Producer",
    "ProducerFencedError",
    "Record",
    "RecordMetadata",
    "RequestTimeoutError",
    "Security",
    "SerializationContext",
    "SerializationError",
    "Serializer",
    "StuckError",
    "TopicPartition",
    "TopicRecreatedError",
    "Transaction",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionOutcome",
    "UndeliveredError",
    "UnsupportedVersionError",
]

# Type checkers take a module with __getattr__ for one that has any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            from kohort.util.missing_names import missing

            raise missing(__name__, name)
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
