"""Old targets of which two have the same partition."""

from uuid import UUID

from kohort.assignors.server import without_overlaps

T, U = UUID(int=1), UUID(int=2)


def test_targets_without_a_shared_partition_stay_as_they_are() -> None:
    targets = {"a": {T: (0, 1)}, "b": {T: (2,), U: (0,)}, "c": {}}
    assert without_overlaps(targets) is targets


def test_the_first_member_keeps_a_shared_partition() -> None:
    targets = {"a": {T: (1, 0)}, "b": {T: (2, 1), U: (0,)}, "c": {T: (0,)}, "d": {U: (1,)}}
    found = without_overlaps(targets)
    assert found == {"a": {T: (1, 0)}, "b": {T: (2,), U: (0,)}, "c": {}, "d": {U: (1,)}}
    assert found["a"] is targets["a"]
    assert found["d"] is targets["d"]
