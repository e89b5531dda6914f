"""Plans of given commits: clamping, deletions, unchanged partitions, topic ids."""

from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets import ResetPlan, TopicIds, changes_to
from kohort.types import GroupId, TopicPartition

G = GroupId("g")
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ENDS = dict.fromkeys((T0, T1, T2), (10, 20))


def commit(offset: int, epoch: int = 3, metadata: str = "m") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset=offset, leader_epoch=epoch, metadata=metadata)


def test_an_offset_outside_the_log_becomes_its_nearest_end_without_its_epoch() -> None:
    commits = {T0: commit(9), T1: commit(21), T2: commit(20)}
    changes = changes_to(G, commits, {}, ENDS)
    assert [(each.new, each.warning) for each in changes] == [
        (commit(10, -1), "offset 9 is before the log's start; set to 10"),
        (commit(20, -1), "offset 21 is beyond the log's end; set to 20"),
        (commit(20), ""),
    ]


def test_a_commit_that_shall_not_be_there_is_deleted_if_it_is() -> None:
    changes = changes_to(G, {T0: None, T1: None}, {T1: commit(15)}, ENDS)
    assert [(each.partition, each.old, each.new) for each in changes] == [(T1, commit(15), None)]


def test_an_unchanged_commit_is_a_part_of_the_plan() -> None:
    (change,) = changes_to(G, {T0: commit(15)}, {T0: commit(15)}, ENDS)
    assert not change.changes


def test_a_plan_keeps_the_ids_of_its_topics() -> None:
    changes = changes_to(G, {T0: commit(15)}, {}, ENDS, {"t": UUID(int=7)})
    plan = ResetPlan(specification="r", cluster_id=None, made_at_ms=0, changes=tuple(changes))
    (change,) = ResetPlan.from_json(plan.to_json()).changes
    assert change.topic_id == UUID(int=7)
    assert ResetPlan.from_json(plan.to_json()).inverse(1).changes[0].topic_id == UUID(int=7)


def test_recreated_topics_are_those_that_exist_with_another_id() -> None:
    known = TopicIds({"t": UUID(int=1), "u": UUID(int=2), "v": None})
    expected = {"t": UUID(int=1), "u": UUID(int=3), "v": UUID(int=4), "w": UUID(int=5)}
    assert known.recreated(expected) == ["u"]
