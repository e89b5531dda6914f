"""Responses of Apache Kafka 4.4 that kio does not have yet."""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.response_header.v0.header import ResponseHeader as ResponseHeaderV0
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import GroupId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(18)
    __header_schema__: ClassVar[type[ResponseHeaderV0]] = ResponseHeaderV0
    api_key: i16 = field(metadata={"kafka_type": "int16"})
    """The API."""
    min_version: i16 = field(metadata={"kafka_type": "int16"})
    """The lowest version, inclusive."""
    max_version: i16 = field(metadata={"kafka_type": "int16"})
    """The highest version, inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeatureKey:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(18)
    __header_schema__: ClassVar[type[ResponseHeaderV0]] = ResponseHeaderV0
    name: str = field(metadata={"kafka_type": "string"})
    """The feature."""
    min_version: i16 = field(metadata={"kafka_type": "int16"})
    """The lowest level that the broker supports."""
    max_version: i16 = field(metadata={"kafka_type": "int16"})
    """The highest level that the broker supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeatureKey:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(18)
    __header_schema__: ClassVar[type[ResponseHeaderV0]] = ResponseHeaderV0
    name: str = field(metadata={"kafka_type": "string"})
    """The feature."""
    max_version_level: i16 = field(metadata={"kafka_type": "int16"})
    """The highest level in force in the cluster."""
    min_version_level: i16 = field(metadata={"kafka_type": "int16"})
    """The lowest level in force in the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(18)
    __header_schema__: ClassVar[type[ResponseHeaderV0]] = ResponseHeaderV0
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """The error of the whole request; REBOOTSTRAP_REQUIRED since this version."""
    api_keys: tuple[ApiVersion, ...]
    """The APIs that the broker supports."""
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """How long the client must wait because of a quota."""
    supported_features: tuple[SupportedFeatureKey, ...] = field(metadata={"tag": 0}, default=())
    """The features that the broker supports."""
    finalized_features_epoch: i64 = field(
        metadata={"kafka_type": "int64", "tag": 1}, default=i64(-1)
    )
    """The epoch of `finalized_features`; -1 if it is not known."""
    finalized_features: tuple[FinalizedFeatureKey, ...] = field(metadata={"tag": 2}, default=())
    """The levels in force in the cluster."""
    zk_migration_ready: bool = field(metadata={"kafka_type": "bool", "tag": 3}, default=False)
    """Whether a controller is ready for the migration from ZooKeeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(28)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    """The partition within the topic."""
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """The error, 0 if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(28)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    """The topic's id."""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]
    """The outcome for each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(28)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """How long the client must wait because of a quota."""
    topics: tuple[TxnOffsetCommitResponseTopic, ...]
    """The outcome for each topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(42)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    group_id: GroupId = field(metadata={"kafka_type": "string"})
    """The group."""
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """The error, 0 if the group was deleted."""
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)
    """The error as text; None if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(42)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """How long the client must wait because of a quota."""
    results: tuple[DeletableGroupResult, ...]
    """The outcome for each group."""
