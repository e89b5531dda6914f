"""Topics: every change is one record, and what the log says is what there is after any restart."""

import asyncio
import gc
import json
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort import __version__
from kohort.cluster import (
    Endpoint,
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRegistered,
    ReassignmentPlanned,
)
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol import batches
from kohort.quotas import quota_entity
from kohort.security.acls import AclBinding, AclOperation, AclPermissionType, PatternType
from kohort.security.acls import ResourceType as AclResourceType
from kohort.security.scram import ScramCredential, ScramMechanism
from kohort.server.config.resources import ResourceType
from kohort.server.topics import cluster_metadata, snapshots
from kohort.server.topics.cluster_metadata import (
    METADATA,
    AclRecord,
    AclRemoved,
    ClusterIdRecord,
    ClusterState,
    ConfigsRecord,
    MetadataRecord,
    ProducerIdsReserved,
    QuotasRecord,
    ScramSecretRecord,
    TopicDeleted,
    TopicRecord,
    UserScramCredentialRecord,
)
from kohort.server.topics.metadata_log import METADATA_LOG
from kohort.server.topics.topic import NewTopic
from kohort.server.topics.topics import Topics, new_cluster_id
from kohort.types import Timestamp, TopicIdPartition, TopicPartition
from server.faulty_logs import EVERY_PARTITION
from server.handlers.bench import START, HandlerBench


def snapshot(topics: Topics) -> dict[str, Any]:
    return {
        topic.name: (topic.id, len(topic.partitions), dict(topic.configs), topic.internal)
        for topic in topics.all()
    }


def refused(act: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value.code


def test_everything_survives_a_restart(bench: HandlerBench) -> None:
    bench.topics.create("orders", 3, {"retention.ms": "7"})
    bench.topics.create("__consumer_offsets", 2, {"cleanup.policy": "compact"}, internal=True)
    bench.topics.create("gone", 1)
    bench.topics.delete("gone")
    bench.topics.add_partitions("orders", 5)
    bench.topics.alter_configs("orders", {"retention.bytes": "9"})
    bench.fill("orders", 4)
    before, cluster_id = snapshot(bench.topics), bench.topics.cluster_id
    bench.restart()
    assert snapshot(bench.topics) == before
    assert before["orders"][1:] == (5, {"retention.bytes": "9"}, False)
    assert bench.topics.cluster_id == cluster_id
    orders = bench.topics.get("orders")
    assert orders is not None
    assert bench.topics.by_id(orders.id) is orders
    assert [log.end_offset for log in orders.partitions] == [0, 0, 0, 0, 1]
    assert orders.partitions[4].config.retention_bytes == 9


def test_a_topic_takes_appends_as_soon_as_it_is_there(bench: HandlerBench) -> None:
    topic = bench.topics.create("orders", 2)
    bench.fill("orders", 1)
    assert topic.partitions[1].end_offset == 1
    assert bench.topics.log("orders", 1) is topic.partitions[1]
    for missing in (("orders", 2), ("orders", -1), ("nope", 0)):
        assert bench.topics.log(*missing) is None


def test_refused_topics(bench: HandlerBench) -> None:
    create = bench.topics.create
    create("a.b", 1)
    assert refused(lambda: create("a.b", 1)) is ErrorCode.topic_already_exists
    assert refused(lambda: create("a_b", 1)) is ErrorCode.invalid_topic_exception
    assert refused(lambda: create("a b", 1)) is ErrorCode.invalid_topic_exception
    assert refused(lambda: create("c", 0)) is ErrorCode.invalid_partitions
    assert refused(lambda: create("c", 10_001)) is ErrorCode.policy_violation
    assert refused(lambda: create("c", 1, {"foo": "1"})) is ErrorCode.invalid_config
    assert refused(lambda: bench.topics.add_partitions("a.b", 1)) is ErrorCode.invalid_partitions
    for act in (bench.topics.delete, lambda name: bench.topics.add_partitions(name, 2)):
        assert refused(lambda act=act: act("nope")) is ErrorCode.unknown_topic_or_partition
    assert list(snapshot(bench.topics)) == ["a.b"]


def test_a_name_is_free_again_after_deletion_and_the_records_are_gone(bench: HandlerBench) -> None:
    first = bench.topics.create("a.b", 1)
    bench.fill("a.b")
    told: list[frozenset[str]] = []
    bench.topics.on_deleted.append(told.append)
    bench.topics.delete("a.b")
    assert told == [], "a power loss may still bring the topic back"
    bench.topics.flush()
    assert told == [frozenset({"a.b"})]
    assert bench.topics.by_id(first.id) is None
    second = bench.topics.create("a_b", 1)
    bench.topics.delete("a_b")
    third = bench.topics.create("a.b", 1)
    assert len({first.id, second.id, third.id}) == 3
    assert third.partitions[0].end_offset == 0


async def test_a_name_is_free_once_the_offsets_of_its_topic_are_gone(bench: HandlerBench) -> None:
    gone = asyncio.Event()
    bench.topics.on_deleted.append(lambda names: [asyncio.create_task(wait_for(gone))])
    bench.topics.create("a.b", 1)
    bench.topics.delete("a.b")
    await bench.topics.durable()
    creating = asyncio.ensure_future(bench.topics.create_each([NewTopic("a.b", 1)]))
    await asyncio.wait((creating,), timeout=0.05)
    assert not creating.done()
    gone.set()
    (created,) = await creating
    assert bench.topics.get("a.b") is created


async def wait_for(event: asyncio.Event) -> None:
    await event.wait()


def test_marked_logs_that_belong_to_no_topic_are_set_aside_at_start(bench: HandlerBench) -> None:
    orders = bench.topics.create("orders", 2)
    bench.directory.directories.make(
        {TopicPartition("never-created", 0): UUID(int=9), TopicPartition("orders", 2): orders.id}
    )
    bench.restart()
    assert set(bench.directory.names()) == {METADATA, ("orders", 0), ("orders", 1)}


def test_a_creation_that_fails_leaves_nothing(bench: HandlerBench) -> None:
    bench.directory.fail("open", TopicPartition("orders", 2))
    assert refused(lambda: bench.topics.create("orders", 3)) is ErrorCode.kafka_storage_error
    assert set(bench.directory.names()) == {METADATA}
    bench.topics.create("orders", 2)
    assert (
        refused(lambda: bench.topics.add_partitions("orders", 3)) is ErrorCode.kafka_storage_error
    )
    assert snapshot(bench.topics)["orders"][1] == 2
    bench.restart()
    assert snapshot(bench.topics)["orders"][1] == 2


def test_a_record_that_cannot_be_appended_changes_nothing(bench: HandlerBench) -> None:
    bench.topics.create("orders", 1)
    before = snapshot(bench.topics)
    bench.directory.fail("append", METADATA)
    for act in (
        lambda: bench.topics.create("more", 1),
        lambda: bench.topics.delete("orders"),
        lambda: bench.topics.add_partitions("orders", 2),
        lambda: bench.topics.alter_configs("orders", {"retention.ms": "1"}),
        lambda: bench.topics.set_quotas({(("user", "a"),): {"producer_byte_rate": 1.0}}),
        bench.topics.producer_ids.next,
    ):
        assert refused(act) is ErrorCode.kafka_storage_error
    assert snapshot(bench.topics) == before
    assert set(bench.directory.names()) == {METADATA, ("orders", 0)}


def test_files_that_could_not_be_removed_do_not_come_back(bench: HandlerBench) -> None:
    bench.topics.create("orders", 1)
    bench.fill("orders")
    bench.directory.fail("remove", EVERY_PARTITION)
    bench.topics.delete("orders")
    bench.topics.flush()
    bench.directory.heal()
    assert bench.topics.create("orders", 1).partitions[0].end_offset == 0


def test_producer_ids_are_never_given_twice(bench: HandlerBench) -> None:
    given_ids = [bench.topics.producer_ids.next() for _ in range(3)]
    bench.restart()
    given_ids.append(bench.topics.producer_ids.next())
    assert len(set(given_ids)) == 4


def test_cluster_ids_look_like_kafkas() -> None:
    assert len({new_cluster_id() for _ in range(5)}) == 5
    assert all(
        len(each) == 22 and not each.startswith("-")
        for each in (new_cluster_id() for _ in range(200))
    )


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
    st.builds(ClusterIdRecord, st.text()),
    st.builds(ProducerIdsReserved, st.integers(1, 2**63 - 1)),
    st.builds(
        ConfigsRecord,
        st.sampled_from(ResourceType),
        st.text(max_size=2),
        st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    ),
    st.builds(
        QuotasRecord,
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
    st.builds(AclRemoved, st.integers(0, 3).map(lambda n: UUID(int=n))),
    # An entry never changes: each has another id.
    st.integers(0, 3).map(lambda n: AclRecord(UUID(int=n), ENTRIES[n])),
    st.builds(TopicDeleted, st.integers(0, 3).map(lambda n: UUID(int=n))),
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
    state = ClusterState()
    for record in records:
        state.replay(record)
    return content(state)


def content(state: ClusterState) -> tuple[Any, ...]:
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


@given(st.lists(RECORDS, min_size=1))
@settings(max_examples=examples(50))
def test_the_log_its_bytes_and_its_compaction_give_one_state(records: list[MetadataRecord]) -> None:
    data = b"".join(cluster_metadata.encode_batch([record], 5) for record in records)
    assert [record for _, record in cluster_metadata.decode_batches(data)] == records
    last_of_each_key = {cluster_metadata.encode(record)[0]: record for record in records}
    compacted = [
        record
        for record in records
        if last_of_each_key[cluster_metadata.encode(record)[0]] is record
    ]
    assert folded(compacted) == folded(records)


@given(st.lists(RECORDS), st.lists(RECORDS, min_size=1))
@settings(max_examples=examples(50))
def test_records_can_be_taken_back(kept: list[MetadataRecord], lost: list[MetadataRecord]) -> None:
    state = ClusterState()
    for record in kept:
        state.replay(record)
    undo: list[MetadataRecord] = []
    for record in lost:
        undo += reversed(state.inverse(record))
        state.replay(record)
    for record in reversed(undo):
        state.replay(record)
    assert content(state) == folded(kept)


TOPIC = b'{"topic":"00000000-0000-0000-0000-000000000001"}'
ACL = b'{"acl":"00000000-0000-0000-0000-000000000001"}'
NODE = b'{"node":1}'
NODE_VALUE = b'{"draining":false,"endpoints":[],"registeredAt":5,"session":1}'
VALID = {
    "resource_type": "topic",
    "resource_name": "orders",
    "pattern_type": "literal",
    "principal": "User:alice",
    "host": "*",
    "operation": "read",
    "permission_type": "deny",
}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b'{"zone":"x"}', b'{"y":1}', """of the unknown kind b'{"zone":"x"}'"""),
        (b'{"cluster":"id"}', None, "of the unknown kind"),
        (b'{"cluster":"id","x":1}', b'{"id":"a"}', "of the unknown kind"),
        (b'{"cluster":"id"}', b"{}", "a cluster record without the field 'id'"),
        (b'{"cluster":"id"}', b'{"id":7}', "a cluster record whose field 'id' is 7"),
        (b'{"quotas of":{"user":1}}', b"{}", "has quotas of {'user': 1}"),
        (b'{"quotas of":{"user":"a"}}', b'{"x":"1"}', "a record with the quotas {'x': '1'}"),
        (b'{"producer ids":"reserved"}', b'{"end":true}', "whose field 'end' is True"),
        (b'{"scram credential":"MD5","user":"a"}', None, "of the unknown kind 'MD5'"),
        (
            b'{"scram credential":"SCRAM-SHA-256","user":"a"}',
            b'{"salt":"?","storedKey":"","serverKey":"","iterations":4096}',
            "has a field that is not base64",
        ),
        *(
            (ACL, json.dumps(VALID | {field: word}).encode(), f"with the word '{word}'")
            for field, word in (
                ("resource_type", "any"),
                ("resource_type", "share_group"),
                ("pattern_type", "match"),
                ("operation", "unknown"),
                ("permission_type", "any"),
            )
        ),
        (ACL, json.dumps(VALID | {"host": None}).encode(), "whose field 'host' is None"),
        (ACL, json.dumps(VALID | {"until": 1}).encode(), "with the unknown field 'until'"),
        (b'{"acl":"x"}', None, "a binding record with the id 'x'"),
        (b'{"leader of":"x","partition":0}', None, "a leader record with the id 'x'"),
        (NODE, NODE_VALUE.replace(b"[]", b"[1]"), "a node record with the endpoint 1"),
        (NODE, NODE_VALUE.replace(b"false", b"0"), "a node record whose field 'draining' is 0"),
        (b"\xff", b"{}", r"the key b'\xff', which is no JSON object"),
        (b"[" * 100_000, b"{}", "which is no JSON object"),
        (TOPIC, b"[]", "the value b'[]', which is no JSON object"),
        (TOPIC, b"{", "which is no JSON object"),
        (b'{"topic":"x"}', None, "a topic record with the id 'x'"),
        (
            TOPIC,
            b'{"name":"a","partitions":1,"configs":{},"internal":false,"racks":2}',
            "a topic record with the unknown field 'racks'",
        ),
        (
            TOPIC,
            b'{"name":"a","partitions":"1","configs":{},"internal":false}',
            "a topic record whose field 'partitions' is '1'",
        ),
        (
            TOPIC,
            b'{"name":"a","partitions":0,"configs":{},"internal":false}',
            "a topic record with 0 partitions",
        ),
        (
            TOPIC,
            b'{"name":"a","partitions":1,"configs":{"x":1},"internal":false}',
            "with the configs {'x': 1}",
        ),
    ],
)
def test_a_record_that_this_version_did_not_write_is_refused_by_name(
    bench: HandlerBench, key: bytes, value: bytes | None, why: str
) -> None:
    bench.topics.create("orders", 1)
    log = bench.directory.open(METADATA, METADATA_LOG)
    offset = log.end_offset
    log.append(batches.pack([(key, value)], START), START)
    with pytest.raises(KohortError, match=re.escape(why)) as caught:
        bench.restart()
    assert f"__cluster_metadata-0: the record at offset {offset} " in str(caught.value)
    assert f"Kohort {__version__} was the last to serve from it" in str(caught.value)


def test_a_change_that_is_cancelled_before_it_begins(
    bench: HandlerBench, recwarn: pytest.WarningsRecorder
) -> None:
    async def stop_at_once() -> None:
        for _ in range(2):  # the second waits for the first
            creation = bench.topics.create_each([NewTopic("orders", 1)])
            asyncio.get_running_loop().create_task(creation)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(stop_at_once())
    gc.collect()
    assert not [each.message for each in recwarn if "never awaited" in str(each.message)]


@given(st.lists(RECORDS), st.lists(RECORDS))
@settings(max_examples=examples(50))
def test_a_state_becomes_a_later_one_by_what_differs(
    records: list[MetadataRecord], more: list[MetadataRecord]
) -> None:
    state, later, copy = ClusterState(), ClusterState(), ClusterState()
    for record in records:
        state.replay(record)
    for record in (*records, *more):
        later.replay(record)
    for record in snapshots.records_of(later):
        copy.replay(record)
    assert content(copy) == content(later)
    changes = snapshots.difference(snapshots.records_of(state), snapshots.records_of(later))
    assert len(changes) <= len(more)
    for record in changes:
        state.replay(record)
    assert content(state) == content(later)
