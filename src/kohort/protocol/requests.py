"""The fields of each request in all versions that are served, for type checkers.

A handler gets kio's object of the version that came, which has the fields of that version only.
Written by `PYTHONPATH=tests python -m protocol.request_types`.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID


@dataclass(frozen=True)
class PartitionProduceData:
    index: int
    records: bytes | None


@dataclass(frozen=True)
class TopicProduceData:
    topic_id: UUID | None
    partition_data: tuple[PartitionProduceData, ...]
    name: str


@dataclass(frozen=True)
class ProduceRequest:
    transactional_id: str | None
    acks: int
    timeout: timedelta
    topic_data: tuple[TopicProduceData, ...]


@dataclass(frozen=True)
class ReplicaState:
    replica_id: int
    replica_epoch: int


@dataclass(frozen=True)
class FetchPartition:
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: UUID | None
    high_watermark: int


@dataclass(frozen=True)
class ForgottenTopic:
    topic_id: UUID | None
    partitions: tuple[int, ...]
    topic: str


@dataclass(frozen=True)
class FetchTopic:
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]
    topic: str


@dataclass(frozen=True)
class FetchRequest:
    cluster_id: str | None
    replica_state: ReplicaState
    max_wait: timedelta
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]
    rack_id: str
    replica_id: int


@dataclass(frozen=True)
class ListOffsetsPartition:
    partition_index: int
    current_leader_epoch: int
    timestamp: int


@dataclass(frozen=True)
class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True)
class ListOffsetsRequest:
    replica_id: int
    isolation_level: int
    topics: tuple[ListOffsetsTopic, ...]
    timeout: timedelta


@dataclass(frozen=True)
class MetadataRequestTopic:
    topic_id: UUID | None
    name: str | None


@dataclass(frozen=True)
class MetadataRequest:
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool
    include_topic_authorized_operations: bool
    include_cluster_authorized_operations: bool


@dataclass(frozen=True)
class OffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


@dataclass(frozen=True)
class OffsetCommitRequestTopic:
    topic_id: UUID | None
    partitions: tuple[OffsetCommitRequestPartition, ...]
    name: str


@dataclass(frozen=True)
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[OffsetCommitRequestTopic, ...]
    retention_time: timedelta


@dataclass(frozen=True)
class OffsetFetchRequestTopics:
    topic_id: UUID | None
    partition_indexes: tuple[int, ...]
    name: str


@dataclass(frozen=True)
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True)
class OffsetFetchRequestGroup:
    group_id: str
    member_id: str | None
    member_epoch: int
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@dataclass(frozen=True)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: bool
    group_id: str
    topics: tuple[OffsetFetchRequestTopic, ...] | None


@dataclass(frozen=True)
class FindCoordinatorRequest:
    key_type: int
    coordinator_keys: tuple[str, ...]
    key: str


@dataclass(frozen=True)
class JoinGroupRequestProtocol:
    name: str
    metadata: bytes


@dataclass(frozen=True)
class JoinGroupRequest:
    group_id: str
    session_timeout: timedelta
    rebalance_timeout: timedelta
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None


@dataclass(frozen=True)
class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


@dataclass(frozen=True)
class MemberIdentity:
    member_id: str
    group_instance_id: str | None
    reason: str | None


@dataclass(frozen=True)
class LeaveGroupRequest:
    group_id: str
    members: tuple[MemberIdentity, ...]
    member_id: str


@dataclass(frozen=True)
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes


@dataclass(frozen=True)
class SyncGroupRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[SyncGroupRequestAssignment, ...]


@dataclass(frozen=True)
class DescribeGroupsRequest:
    groups: tuple[str, ...]
    include_authorized_operations: bool


@dataclass(frozen=True)
class ListGroupsRequest:
    states_filter: tuple[str, ...]
    types_filter: tuple[str, ...]


@dataclass(frozen=True)
class SaslHandshakeRequest:
    mechanism: str


@dataclass(frozen=True)
class ApiVersionsRequest:
    client_software_name: str
    client_software_version: str
    cluster_id: str | None
    node_id: int


@dataclass(frozen=True)
class CreatableReplicaAssignment:
    partition_index: int
    broker_ids: tuple[int, ...]


@dataclass(frozen=True)
class CreatableTopicConfig:
    name: str
    value: str | None


@dataclass(frozen=True)
class CreatableTopic:
    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


@dataclass(frozen=True)
class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout: timedelta
    validate_only: bool


@dataclass(frozen=True)
class DeleteTopicState:
    name: str | None
    topic_id: UUID | None


@dataclass(frozen=True)
class DeleteTopicsRequest:
    topics: tuple[DeleteTopicState, ...]
    timeout: timedelta
    topic_names: tuple[str, ...]


@dataclass(frozen=True)
class DeleteRecordsPartition:
    partition_index: int
    offset: int


@dataclass(frozen=True)
class DeleteRecordsTopic:
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


@dataclass(frozen=True)
class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: timedelta


@dataclass(frozen=True)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout: timedelta
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class OffsetForLeaderPartition:
    partition: int
    current_leader_epoch: int
    leader_epoch: int


@dataclass(frozen=True)
class OffsetForLeaderTopic:
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


@dataclass(frozen=True)
class OffsetForLeaderEpochRequest:
    replica_id: int
    topics: tuple[OffsetForLeaderTopic, ...]


@dataclass(frozen=True)
class AddPartitionsToTxnTopic:
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: tuple[AddPartitionsToTxnTopic, ...]


@dataclass(frozen=True)
class AddPartitionsToTxnRequest:
    transactions: tuple[AddPartitionsToTxnTransaction, ...]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]


@dataclass(frozen=True)
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@dataclass(frozen=True)
class EndTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@dataclass(frozen=True)
class WritableTxnMarkerTopic:
    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True)
class WritableTxnMarker:
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int


@dataclass(frozen=True)
class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...]


@dataclass(frozen=True)
class TxnOffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


@dataclass(frozen=True)
class TxnOffsetCommitRequestTopic:
    topic_id: UUID | None
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]
    name: str


@dataclass(frozen=True)
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]
    generation_id: int


@dataclass(frozen=True)
class DescribeAclsRequest:
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@dataclass(frozen=True)
class AclCreation:
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True)
class CreateAclsRequest:
    creations: tuple[AclCreation, ...]


@dataclass(frozen=True)
class DeleteAclsFilter:
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@dataclass(frozen=True)
class DeleteAclsRequest:
    filters: tuple[DeleteAclsFilter, ...]


@dataclass(frozen=True)
class DescribeConfigsResource:
    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None


@dataclass(frozen=True)
class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool
    include_documentation: bool


@dataclass(frozen=True)
class AlterConfigsAlterableConfig:
    name: str
    value: str | None


@dataclass(frozen=True)
class AlterConfigsAlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterConfigsAlterableConfig, ...]


@dataclass(frozen=True)
class AlterConfigsRequest:
    resources: tuple[AlterConfigsAlterConfigsResource, ...]
    validate_only: bool


@dataclass(frozen=True)
class DescribableLogDirTopic:
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None


@dataclass(frozen=True)
class SaslAuthenticateRequest:
    auth_bytes: bytes


@dataclass(frozen=True)
class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...]


@dataclass(frozen=True)
class CreatePartitionsTopic:
    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None


@dataclass(frozen=True)
class CreatePartitionsRequest:
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: timedelta
    validate_only: bool


@dataclass(frozen=True)
class DeleteGroupsRequest:
    groups_names: tuple[str, ...]


@dataclass(frozen=True)
class ElectLeadersTopicPartitions:
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class ElectLeadersRequest:
    election_type: int
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None
    timeout: timedelta


@dataclass(frozen=True)
class IncrementalAlterConfigsAlterableConfig:
    name: str
    config_operation: int
    value: str | None


@dataclass(frozen=True)
class IncrementalAlterConfigsAlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[IncrementalAlterConfigsAlterableConfig, ...]


@dataclass(frozen=True)
class IncrementalAlterConfigsRequest:
    resources: tuple[IncrementalAlterConfigsAlterConfigsResource, ...]
    validate_only: bool


@dataclass(frozen=True)
class ReassignablePartition:
    partition_index: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True)
class ReassignableTopic:
    name: str
    partitions: tuple[ReassignablePartition, ...]


@dataclass(frozen=True)
class AlterPartitionReassignmentsRequest:
    timeout: timedelta
    allow_replication_factor_change: bool
    topics: tuple[ReassignableTopic, ...]


@dataclass(frozen=True)
class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True)
class ListPartitionReassignmentsRequest:
    timeout: timedelta
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None


@dataclass(frozen=True)
class OffsetDeleteRequestPartition:
    partition_index: int


@dataclass(frozen=True)
class OffsetDeleteRequestTopic:
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@dataclass(frozen=True)
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


@dataclass(frozen=True)
class ComponentData:
    entity_type: str
    match_type: int
    match: str | None


@dataclass(frozen=True)
class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...]
    strict: bool


@dataclass(frozen=True)
class EntityData:
    entity_type: str
    entity_name: str | None


@dataclass(frozen=True)
class OpData:
    key: str
    value: float
    remove: bool


@dataclass(frozen=True)
class EntryData:
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


@dataclass(frozen=True)
class AlterClientQuotasRequest:
    entries: tuple[EntryData, ...]
    validate_only: bool


@dataclass(frozen=True)
class UserName:
    name: str


@dataclass(frozen=True)
class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None


@dataclass(frozen=True)
class ScramCredentialDeletion:
    name: str
    mechanism: int


@dataclass(frozen=True)
class ScramCredentialUpsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@dataclass(frozen=True)
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


@dataclass(frozen=True)
class PartitionData:
    partition_index: int


@dataclass(frozen=True)
class TopicData:
    topic_name: str
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True)
class DescribeQuorumRequest:
    topics: tuple[TopicData, ...]


@dataclass(frozen=True)
class FeatureUpdateKey:
    feature: str
    max_version_level: int
    upgrade_type: int
    allow_downgrade: bool


@dataclass(frozen=True)
class UpdateFeaturesRequest:
    timeout: timedelta
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool


@dataclass(frozen=True)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool


@dataclass(frozen=True)
class DescribeProducersTopicRequest:
    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True)
class DescribeProducersRequest:
    topics: tuple[DescribeProducersTopicRequest, ...]


@dataclass(frozen=True)
class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True)
class ListTransactionsRequest:
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int, ...]
    duration_filter: int
    transactional_id_pattern: str | None


@dataclass(frozen=True)
class ConsumerGroupHeartbeatTopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None


@dataclass(frozen=True)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


@dataclass(frozen=True)
class ListConfigResourcesRequest:
    resource_types: tuple[int, ...]


@dataclass(frozen=True)
class DescribeTopicPartitionsTopicRequest:
    name: str


@dataclass(frozen=True)
class Cursor:
    topic_name: str
    partition_index: int


@dataclass(frozen=True)
class DescribeTopicPartitionsRequest:
    topics: tuple[DescribeTopicPartitionsTopicRequest, ...]
    response_partition_limit: int
    cursor: Cursor | None


@dataclass(frozen=True)
class AllocateProducerIdsRequest:
    broker_id: int
    broker_epoch: int
