"""The generations that are read back from the records of a group."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from kohort.coordinator import records
from kohort.coordinator.config import (
    ConsumerGroupConfig,
    GroupCoordinatorConfig,
)
from kohort.coordinator.history import GroupHistory, LoggedGeneration, Position
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitRecord,
)
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.coordinator_common import CorruptRecordError
from kohort.protocol.packing import pack_bytes, pack_int32, pack_string
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.testing.bench import Bench
from kohort.types import Timestamp, TopicPartition

T, U = UUID(int=1), UUID(int=2)
NAMES = {T: "t", U: "u"}
TOPICS = FixedTopics([TopicImage("t", T, 2), TopicImage("u", U, 2)], version=1)
AT_ONCE = GroupCoordinatorConfig(
    initial_rebalance_delay_ms=0,
    consumer=ConsumerGroupConfig(assignment_interval_ms=0),
)


class Recorder(Bench):
    """A bench that keeps its log write by write."""

    def __init__(self):
        self.writes = []
        super().__init__(AT_ONCE, topics=TOPICS)

    def _apply(self, result):
        super()._apply(result)
        if result.records:
            # No two writes at one time.
            self.writes.append((self.timestamp + len(self.writes), result.records))

    def generations(self, *, skip=0):
        """What is read of group g; without the first `skip` records, as after compaction."""
        found = [
            (timestamp, record)
            for timestamp, written in self.writes
            for record in written
            if record.key.group == "g" and not isinstance(record, OffsetCommitRecord)
        ]
        return fold(found[skip:])


def fold(found: Iterable[tuple[int, object]]) -> list[LoggedGeneration]:
    history = GroupHistory("g", NAMES)
    seen = []
    for offset, (timestamp, record) in enumerate(found):
        # As in the log: through their bytes.
        again = records.decode(*records.encode(record))
        seen += history.replay(again, Position(offset, Timestamp(timestamp)))
    return [*seen, *history.close()]


@pytest.fixture
def bench():
    return Recorder()


def partitions(*numbers, topic="t"):
    return tuple(TopicPartition(topic, number) for number in numbers)


def subscribed(*topics):
    return {"range": encode_subscription(Subscription(topics=topics or ("t",)))}


def assigned(*numbers):
    return encode_assignment(Assignment(partitions=partitions(*numbers)))


def new(bench, client_id="client"):
    """A member joins; its id."""
    options = {"client_id": client_id, "protocols": subscribed()}
    member_id = bench.join("g", **options).response.member_id
    bench.join("g", member_id, **options)
    bench.advance(0)
    return member_id


def stable(bench, generation, owned):
    """All members join again, and the first of them assigns."""
    for member_id in owned:
        bench.join("g", member_id, protocols=subscribed())
    for member_id in owned:
        assignments = {id_: assigned(*numbers) for id_, numbers in owned.items()}
        bench.sync("g", member_id, generation, assignments)


def ids(members):
    return [each.member_id for each in members]


def gained(of):
    return {each.member_id: got for each, got in of.gained.items()}


def test_classic_generations_tell_who_came_who_went_and_what_moved(bench):
    a = new(bench, "anna")
    bench.sync("g", a, 1, {a: assigned(0, 1)})
    b = new(bench)
    stable(bench, 2, {a: (0,), b: (1,)})
    bench.leave("g", a)
    stable(bench, 3, {b: (0, 1)})
    bench.leave("g", b)
    created, first, second, third, empty = bench.generations()
    assert (created.generation, created.outcome, created.members) == (0, "created", ())
    assert (first.generation, first.outcome, first.protocol) == (1, "stable", "range")
    assert (ids(first.joining), first.is_first) == ([a], False)
    assert gained(first) == {a: partitions(0, 1)}
    assert (ids(second.joining), ids(second.removed)) == ([b], [])
    assert (gained(second), second.unowned) == ({b: partitions(1)}, ())
    assert (ids(third.joining), ids(third.removed)) == ([], [a])
    assert gained(third) == {b: partitions(0)}
    assert (empty.outcome, empty.generation, ids(empty.removed)) == ("empty", 4, [b])
    assert third.ended > second.ended


def test_a_group_is_what_its_coordinator_has(bench):
    members = bench.stable(members=3)
    bench.leave("g", members[1])
    logged = bench.generations()[-1]
    assert ids(logged.members) == list(bench.group().logged.members)
    assert logged.generation == bench.group().logged.value.generation


def test_generations_that_were_never_synced_are_counted(bench):
    a = new(bench)
    b = new(bench)
    bench.join("g", a, protocols=subscribed())
    stable(bench, 2, {a: (0,), b: (1,)})
    created, second = bench.generations()
    assert (created.outcome, second.generation, second.skipped) == ("created", 2, 1)


def test_the_first_generation_of_a_compacted_log_counts_all_members_as_joining(bench):
    a = new(bench)
    bench.sync("g", a, 1, {a: assigned(0, 1)})
    b = new(bench)
    stable(bench, 2, {a: (0,), b: (1,)})
    (second,) = bench.generations(skip=2)
    assert (second.generation, second.is_first, second.skipped) == (2, True, 0)
    assert sorted(ids(second.joining)) == sorted([a, b])


def test_a_smaller_generation_is_another_life(bench):
    a = new(bench)
    bench.sync("g", a, 1, {a: assigned(0)})
    records_ = [record for _, written in bench.writes for record in written]
    later = replace_generation(records_[-1], 7)
    seen = fold([(1, later), (2, records_[-1])])
    assert [(each.generation, each.is_first, ids(each.joining)) for each in seen] == [
        (7, True, [a]),
        (1, False, [a]),
    ]


def replace_generation(record, generation):
    return GroupMetadataRecord(record.key, record.value._replace(generation=generation))


def test_a_static_member_is_replaced_without_a_generation(bench):
    joining = bench.join(instance_id="i", protocols=subscribed())
    bench.advance(0)
    a = joining.response.member_id
    bench.sync("g", a, 1, {a: assigned(0, 1)}, instance_id="i")
    again = bench.join(instance_id="i", protocols=subscribed()).response.member_id
    assert again != a
    last = bench.generations()[-1]
    assert (last.outcome, last.generation, ids(last.replaced)) == ("replaced", 1, [again])
    assert (last.joining, last.removed, gained(last), last.unowned) == ((), (), {}, ())


def test_a_deletion_is_a_generation_of_its_own(bench):
    a = new(bench)
    bench.sync("g", a, 1, {a: assigned(0)})
    bench.leave("g", a)
    bench.delete("g")
    new(bench)
    *_, empty, deleted, created = bench.generations()
    assert [each.outcome for each in (empty, deleted, created)] == ["empty", "deleted", "created"]
    assert (created.generation, created.is_first) == (0, False)


def test_other_protocol_types_have_members_and_no_partitions():
    member = MemberMetadata("w", None, "worker", "/1.2.3.4", 1, 1, b"\xff", b"\xfe")
    value = GroupMetadataValue("connect", 1, "default", "w", 5, (member,))
    record = GroupMetadataRecord(GroupMetadataKey("g"), value)
    (only,) = fold([(6, record)])
    assert (ids(only.joining), only.gained, only.unowned) == (["w"], {}, ())
    of_consumer = GroupMetadataRecord(record.key, value._replace(protocol_type="consumer"))
    (unreadable,) = fold([(6, of_consumer)])
    assert (ids(unreadable.members), unreadable.gained) == (["w"], {})


def test_epochs_of_a_consumer_group(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", 2)
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    (first, open_) = bench.generations()
    assert (first.generation, first.outcome, gained(first)) == (
        2,
        "stable",
        {"A": partitions(0, 1)},
    )
    assert (open_.outcome, open_.ended, ids(open_.joining)) == ("reconciling", None, ["B"])
    bench.consumer_heartbeat("g", "B", 3)
    bench.consumer_heartbeat("g", "A", 3, topics=["t", "u"])
    second, third = bench.generations()[1:3]
    assert (second.generation, second.outcome) == (3, "stable")
    assert (gained(second), second.unowned) == ({"B": partitions(1)}, ())
    assert second.started <= second.joined < second.ended
    assert (third.generation, ids(third.resubscribed)) == (4, ["A"])
    bench.leave("g", "A", "B")
    last = bench.generations()[-1]
    assert (last.outcome, sorted(ids(last.removed))) == ("empty", ["A", "B"])


def test_an_epoch_that_the_next_one_overtakes(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.leave("g", "B")
    bench.consumer_heartbeat("g", "A", 2)
    seen = [(each.generation, each.outcome, ids(each.removed)) for each in bench.generations()]
    assert seen == [(2, "stable", []), (3, "disturbed", []), (4, "stable", ["B"])]


def test_a_static_member_of_a_consumer_group_is_away_and_returns(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], instance_id="i")
    bench.consumer_heartbeat("g", "A", -2, instance_id="i")
    bench.consumer_heartbeat("g", "B", 0, topics=["t"], instance_id="i")
    first, away, back = bench.generations()
    assert (first.outcome, away.outcome, back.outcome) == ("stable", "away", "replaced")
    assert (ids(away.away), ids(back.replaced)) == (["A"], ["B"])
    assert (back.generation, back.joining, back.removed) == (2, (), ())
    bench.topics = replace_topics(3)
    bench.consumer_heartbeat("g", "B", 2)
    changed = bench.generations()[-1]
    assert (changed.topics_changed, changed.joining, changed.removed) == (True, (), ())
    assert gained(changed) == {"B": partitions(2)}


def replace_topics(count):
    return FixedTopics([TopicImage("t", T, count)], version=2)


def test_a_group_that_changes_its_protocol(bench):
    a = new(bench)
    bench.sync("g", a, 1, {a: assigned(0, 1)})
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    upgraded = next(each for each in bench.generations() if each.type == "consumer")
    assert (upgraded.outcome, ids(upgraded.removed)) == ("upgraded", [])
    bench.leave("g", "B")
    downgraded = next(each for each in bench.generations() if each.outcome == "downgraded")
    assert (downgraded.type, ids(downgraded.removed)) == ("classic", ["B"])
    assert "deleted" not in {each.outcome for each in bench.generations()}


def test_an_epoch_of_a_compacted_log_has_its_members(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    last = {}
    for timestamp, written in bench.writes:
        for record in written:
            key = (type(record), record.key)
            last.pop(key, None)
            last[key] = (timestamp, record)
    (only,) = fold(last.values())
    assert (only.generation, only.is_first) == (3, True)
    assert sorted(ids(only.joining)) == ["A", "B"]


def test_the_layout_of_redpanda():
    member = MemberMetadata("anna-1", "i", "anna", "/1.2.3.4", 7, 8, b"sub", b"ass")
    value = GroupMetadataValue("consumer", 4, "range", "anna-1", 9, (member,))
    written = (
        b"\x00\x03", pack_string("consumer"), pack_int32(4), pack_string("range"),
        pack_string("anna-1"), (9).to_bytes(8, "big"), pack_int32(1), b"\x00\x03",
        pack_string("anna-1"), pack_string("i"), pack_string("anna"), pack_string("/1.2.3.4"),
        pack_int32(7), pack_int32(8), pack_bytes(b"sub"), pack_bytes(b"ass"),
    )  # fmt: skip
    data = b"".join(written)
    assert records.decode_redpanda_group(data) == value
    key = records.encode(GroupMetadataRecord(GroupMetadataKey("g"), None))[0]
    with pytest.raises(CorruptRecordError):
        records.decode(key, data)
    with pytest.raises(CorruptRecordError):
        records.decode_redpanda_group(data[:-1])
