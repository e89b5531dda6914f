"""The log, its bytes, its compaction and its snapshots give one state."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.cluster import (
    Endpoint,
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRegistered,
    ReassignmentPlanned,
)
from kohort.quotas import quota_entity
from kohort.security.acls import AclBinding, AclOperation, AclPermissionType, PatternType
from kohort.security.acls import ResourceType as AclResourceType
from kohort.security.scram import ScramCredential, ScramMechanism
from kohort.server.config.resources import ResourceType
from kohort.server.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClusterIdRecord,
    ConfigRecord,
    MetadataImage,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    ScramSecretRecord,
    TopicRecord,
    UserScramCredentialRecord,
    decode_batches,
    difference,
    encode,
    encode_batch,
    records_of,
)
from kohort.types import Timestamp, TopicIdPartition

ENTRIES = [
    AclBinding(
        AclResourceType.USER if number else AclResourceType.TOPIC,
        "käse",
        PatternType(3 + number % 2),
        f"User:{number}",
        "*",
        AclOperation(15 - number),
        AclPermissionType(2 + number % 2),
    )
    for number in range(4)
]
PLACES = st.builds(
    TopicIdPartition, st.integers(0, 1).map(lambda n: UUID(int=n)), st.integers(0, 1)
)
RECORDS: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(
        NodeRegistered,
        st.integers(0, 2),
        st.integers(0, 9),
        st.lists(
            st.builds(Endpoint, st.text(max_size=2), st.text(max_size=2), st.integers(0, 9)),
            max_size=2,
        ).map(tuple),
        st.integers(0, 9).map(Timestamp),
        st.none() | st.text(max_size=2),
        st.booleans(),
    ),
    st.builds(NodeFenced, st.integers(0, 2)),
    st.builds(
        LeaderChanged,
        PLACES,
        st.just(Leader()) | st.builds(Leader, st.integers(-1, 2), st.integers(0, 9)),
    ),
    st.builds(ReassignmentPlanned, PLACES, st.none()),
    st.builds(ReassignmentPlanned, PLACES, st.integers(0, 2), st.booleans()),
    st.builds(ClusterIdRecord, st.text(min_size=1)),
    st.builds(ProducerIdsRecord, st.integers(1, 2**63 - 1)),
    st.builds(
        ConfigRecord,
        st.sampled_from(ResourceType),
        st.text(max_size=2),
        st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    ),
    st.builds(
        ClientQuotaRecord,
        st.dictionaries(
            st.sampled_from(["user", "client-id", "ip"]), st.none() | st.text(max_size=2)
        ).map(lambda names: quota_entity(names.items())),
        st.dictionaries(st.text(max_size=3), st.floats(0, exclude_min=True), max_size=2),
    ),
    st.builds(
        UserScramCredentialRecord,
        st.text(max_size=2),
        st.sampled_from(ScramMechanism),
        st.none()
        | st.builds(
            ScramCredential,
            salt=st.binary(max_size=3),
            stored_key=st.binary(max_size=3),
            server_key=st.binary(max_size=3),
            iterations=st.integers(4_096, 16_384),
        ),
    ),
    st.builds(ScramSecretRecord, st.binary(min_size=1, max_size=3)),
    st.builds(RemoveAccessControlEntryRecord, st.integers(0, 3).map(lambda n: UUID(int=n))),
    # An entry never changes: each has another id.
    st.integers(0, 3).map(lambda n: AccessControlEntryRecord(UUID(int=n), ENTRIES[n])),
    st.builds(RemoveTopicRecord, st.integers(0, 3).map(lambda n: UUID(int=n))),
    st.builds(
        TopicRecord,
        id=st.integers(0, 3).map(lambda n: UUID(int=n)),
        name=st.text(max_size=5),
        partitions=st.integers(1, 9),
        configs=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
        internal=st.booleans(),
    ),
)


def folded(records: list[MetadataRecord]) -> tuple[Any, ...]:
    state = MetadataImage()
    for record in records:
        state.replay(record)
    return content(state)


def content(state: MetadataImage) -> tuple[Any, ...]:
    quotas, users = state.quotas.entities, state.scram_users
    credentials = users.secret, users.snapshot()
    cluster = state.cluster
    return (
        state.cluster_id,
        state.topics,
        state.configs,
        quotas,
        state.producer_ids_end,
        credentials,
        state.acls.snapshot(),
        (cluster.nodes, cluster.leaders, cluster.moves, cluster.ready),
    )


def as_one_node_logs(records: list[MetadataRecord]) -> Iterator[MetadataRecord]:
    """Without a topic of a name that another one has, and without a new name for a topic.

    Several nodes may log such ones, but their log is compacted to a snapshot, not by keys.
    """
    state = MetadataImage()
    for record in records:
        if isinstance(record, TopicRecord):
            named = {topic.name: topic for topic in state.topics.values()}
            before = state.topics.get(record.id, record)
            if named.get(record.name, record).id != record.id or before.name != record.name:
                continue
        state.replay(record)
        yield record


@given(st.lists(RECORDS, min_size=1))
@settings(max_examples=examples(50))
def test_the_log_its_bytes_and_its_compaction_give_one_state(records: list[MetadataRecord]) -> None:
    data = b"".join(encode_batch([record], 5) for record in records)
    assert [record for _, record in decode_batches(data)] == records
    records = list(as_one_node_logs(records))
    last_of_each_key = {encode(record)[0]: record for record in records}
    compacted = [record for record in records if last_of_each_key[encode(record)[0]] is record]
    assert folded(compacted) == folded(records)


@given(st.lists(RECORDS), st.lists(RECORDS, min_size=1))
@settings(max_examples=examples(50))
def test_records_can_be_taken_back(kept: list[MetadataRecord], lost: list[MetadataRecord]) -> None:
    state = MetadataImage()
    for record in kept:
        state.replay(record)
    undo: list[MetadataRecord] = []
    for record in lost:
        undo += reversed(state.inverse(record))
        state.replay(record)
    for record in reversed(undo):
        state.replay(record)
    assert content(state) == folded(kept)


@given(st.lists(RECORDS), st.lists(RECORDS))
@settings(max_examples=examples(50))
def test_a_state_becomes_a_later_one_by_what_differs(
    records: list[MetadataRecord], more: list[MetadataRecord]
) -> None:
    state, later, copy = MetadataImage(), MetadataImage(), MetadataImage()
    for record in records:
        state.replay(record)
    for record in (*records, *more):
        later.replay(record)
    for record in records_of(later):
        copy.replay(record)
    assert content(copy) == content(later)
    changes = difference(records_of(state), records_of(later))
    assert len(changes) <= len(more)
    for record in changes:
        state.replay(record)
    assert content(state) == content(later)
