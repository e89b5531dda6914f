"""The plan file: what it keeps, what is no plan, inverse and drift; and Kafka's CSV."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets.csv import read_offsets, write_offsets
from kohort.client.resets.plan import Drift, OffsetChange, PlanError, ResetPlan
from kohort.errors import ConfigError
from kohort.types import GroupId, TopicPartition

G = GroupId("orders, all")
OFFSETS = st.none() | st.builds(
    OffsetAndMetadata,
    offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(),
)
PLACES = st.tuples(st.text(), st.builds(TopicPartition, st.text(), st.integers(0, 2**31 - 1)))


def change(partition: int, old: int | None, new: int | None, group: GroupId = G) -> OffsetChange:
    def committed(offset: int | None) -> OffsetAndMetadata | None:
        return None if offset is None else OffsetAndMetadata(offset=offset)

    return OffsetChange(
        group=group,
        partition=TopicPartition("t", partition),
        old=committed(old),
        new=committed(new),
    )


def plan(*changes: OffsetChange) -> ResetPlan:
    return ResetPlan(
        specification="to-earliest", cluster_id="c", made_at_ms=1_769_860_800_000, changes=changes
    )


@given(
    st.dictionaries(PLACES, st.tuples(OFFSETS, OFFSETS, st.text())),
    st.text(),
    st.none() | st.text(),
)
def test_a_plan_is_read_back_from_its_file(
    changes: dict[Any, Any], specification: str, cluster: str | None
) -> None:
    made = ResetPlan(
        specification=specification,
        cluster_id=cluster,
        made_at_ms=0,
        executed_at_ms=None,
        changes=tuple(
            OffsetChange(
                group=GroupId(group), partition=partition, old=old, new=new, warning=warning
            )
            for (group, partition), (old, new, warning) in changes.items()
        ),
    )
    assert ResetPlan.from_json(made.to_json()) == made


def test_the_file_has_a_line_per_partition_and_its_time() -> None:
    text = plan(change(0, 5, 0), change(1, None, 0)).to_json()
    assert json.loads(text)["made_at"] == "2026-01-31T12:00:00.000Z"
    assert len([line for line in text.splitlines() if '"topic"' in line]) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[]", 'not a plan: "format"'),
        ("{}", 'not a plan: "format"'),
        (
            plan().to_json().replace('"version": 1', '"version": 2'),
            "version 2 of a plan; this Kohort reads version 1",
        ),
        (plan(change(0, 1, 2)).to_json().replace('"offset": 1,', '"offset": -1,'), "offset -1"),
        (
            plan(change(0, 1, 2)).to_json().replace('"offset": 1,', '"offset": 1.5,'),
            "1.5 is not an integer",
        ),
        (
            plan(change(0, 1, 2)).to_json().replace('"partition": 0', '"partition": true'),
            "True is not an integer",
        ),
        (plan(change(0, 1, 2)).to_json().replace('"new"', '"now"'), "KeyError: 'new'"),
        (plan(change(0, 1, 2), change(0, 1, 3)).to_json(), "t-0 of orders, all appears twice"),
    ],
)
def test_a_file_that_is_no_plan_is_an_error(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        ResetPlan.from_json(text)


def test_the_inverse_restores_the_former_commits() -> None:
    made = plan(change(0, 5, 0), change(1, None, 3))
    undo = made.inverse(7)
    assert [(each.old, each.new) for each in undo.changes] == [
        (each.new, each.old) for each in made.changes
    ]
    assert undo.specification == "undo of to-earliest"
    assert undo.executed_at_ms is None


def test_drift_has_the_partitions_committed_since_the_plan() -> None:
    made = plan(change(0, 5, 0), change(1, None, 3), change(2, 9, 1))
    at = {0: 5, 1: 4}
    current = {
        G: {
            TopicPartition("t", number): OffsetAndMetadata(offset=offset)
            for number, offset in at.items()
        }
    }
    assert made.drift(current) == (
        Drift(G, TopicPartition("t", 1), None, 4),
        Drift(G, TopicPartition("t", 2), 9, None),
    )


# --- CSV
# --------------------------------------------------------------------------------------------------

A, B = GroupId("a"), GroupId("b")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_csv_of_one_group_has_no_column_for_it() -> None:
    changes = (change(0, 5, 0, A), change(1, None, 7, A))
    assert write_offsets(changes, with_group=False) == "t,0,0\nt,1,7\n"
    assert read_offsets("t,0,0\n\nt,1,7", [A]) == {(A, T0): 0, (A, T1): 7}


def test_csv_of_several_groups_has_a_column_for_them() -> None:
    changes = (change(0, 5, 0, GroupId("a,1")), change(0, 5, 2, B))
    text = write_offsets(changes, with_group=True)
    assert text == '"a,1",t,0,0\nb,t,0,2\n'
    assert read_offsets(text, [GroupId("a,1"), B]) == {(GroupId("a,1"), T0): 0, (B, T0): 2}
    assert read_offsets(text, [B]) == {(B, T0): 2}


@pytest.mark.parametrize(
    ("text", "groups", "said"),
    [
        ("", [A], "empty"),
        ("t,0,0\n", [A, B], "no column of groups"),
        ("t,0\n", [A], "line 1"),
        ("t,0,0\na,t,0,0\n", [A], "line 2"),
        ("t,0,x\n", [A], "neither topic,partition,offset"),
        ("t,0,-1\n", [A], "line 1"),
        ("t,0,1\nt,0,2\n", [A], "line 2 of the CSV file: t-0 has two offsets"),
    ],
)
def test_malformed_csv_is_an_error(text: str, groups: list[GroupId], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_offsets(text, groups)
