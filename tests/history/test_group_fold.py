"""What sequences of group records mean: generations, rebalances, members and owners."""

from typing import Any
from uuid import UUID

import pytest

from history.group_log_builder import (
    POLL_MS,
    SESSION_MS,
    UNRELEASED,
    UNREVOKED,
    G,
    Log,
    T,
    classic,
    classic_tombstone,
    current,
    ended,
    epoch,
    key,
    member,
    removed,
    target,
    target_epoch,
)
from history.group_logs import Commits, Row, Tables, apply, fold_all, resumed
from kohort.coordinator.consumer_records import (
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    MemberKey,
)
from kohort.coordinator.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from kohort.history.group_fold import GroupFold, GroupOptions
from kohort.history.interface import LogPosition

CONSUMER_SESSION = GroupOptions(
    consumer_session_timeout_ms=12_000, consumer_heartbeat_interval_ms=2_000
)


@pytest.fixture
def log() -> Log:
    return Log()


def rows_of(tables: Tables, table: str) -> list[Row]:
    """The rows of a table, with those that have not ended."""
    return [*getattr(tables, table), *tables.open[table]]


def generations(tables: Tables) -> list[tuple[Any, ...]]:
    return [
        (row["type"], row["generation"], row["members"], row["ended_by"])
        for row in rows_of(tables, "generations")
    ]


def ends(tables: Tables) -> dict[str, str | None]:
    return {row["member_id"]: row["ended_by"] for row in rows_of(tables, "members")}


def ms(time: Any) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000)


# --- classic groups


def test_a_group_is_created_synced_and_emptied(log: Log) -> None:
    log.classic(100, 0)
    log.classic(250, 1, {"a": (0, 1)}, joined=200)
    log.classic(360, 3, {"a": (0,), "b": (1,)}, joined=300)
    log.classic(400, 4)
    tables = fold_all(log.records)
    assert generations(tables) == [
        ("classic", 0, [], "next"),
        ("classic", 1, ["a"], "next"),
        ("classic", 3, ["a", "b"], "empty"),
        ("classic", 4, [], "open"),
    ]
    rows = rows_of(tables, "generations")
    assert [row["skipped"] for row in rows] == [0, 0, 1, 0]
    assert [ms(row["state_time"]) for row in rows] == [100, 200, 300, 400]
    assert all(row["complete"] for row in rows)
    first, second, third = rows_of(tables, "rebalances")
    assert (first["joined"], first["added"], first["sync_ms"]) == (["a"], 2, 50)
    assert (second["joined"], second["sync_ms"]) == (["b"], 60)
    assert (second["moved"], second["kept"], second["added"], second["unassigned"]) == (1, 1, 0, 0)
    assert (third["unknown"], third["unassigned"], third["kept"]) == (["a", "b"], 2, 0)


def test_each_life_of_a_group_has_its_own_rows(log: Log) -> None:
    for time in (0, 1_000):
        log.classic(time, 0)
        log.classic(time + 100, 1, {"a": (0,)})
        log.classic(time + 200, 2)
        log.write(time + 300, classic_tombstone())
    tables = fold_all(log.records)
    assert [row["generation"] for row in tables.generations] == [0, 1, 2, 0, 1, 2]
    assert [row["life"] for row in tables.generations] == [0, 0, 0, 4, 4, 4]
    assert [row["life"] for row in tables.groups] == [0, 0, 0, 0, 4, 4, 4, 4]
    assert [row["ended_by"] for row in tables.generations] == ["next", "empty", "deleted"] * 2
    assert not any(tables.open[table] for table in ("generations", "members", "assignments"))


def test_a_smaller_generation_begins_a_life(log: Log) -> None:
    log.classic(100, 5, {"a": (0,)})
    log.classic(200, 1, {"b": (0,)})
    tables = fold_all(log.records)
    (old,), (new,) = tables.generations, tables.open["generations"]
    assert (old["life"], old["ended_by"], old["ended"], old["ended_offset"]) == (
        0,
        "deleted",
        None,
        1,
    )
    assert (new["life"], new["generation"]) == (1, 1)
    assert ends(tables) == {"a": None, "b": None}
    assert tables.members[0]["to_offset"] == 1


def test_an_empty_group_that_is_deleted_after_the_retention_has_expired(log: Log) -> None:
    log.classic(100, 0)
    log.write(100 + 5_000, classic_tombstone())
    options = GroupOptions(retention_ms=5_000)
    assert fold_all(log.records, options=options).generations[0]["ended_by"] == "expired"
    assert fold_all(log.records).generations[0]["ended_by"] == "deleted"


def test_a_static_member_that_is_replaced_stays_in_its_generation(log: Log) -> None:
    log.classic(100, 1, {"a1": (0,), "b": (1,)}, instances={"a1": "a"})
    log.classic(200, 1, {"a2": (0,), "b": (1,)}, instances={"a2": "a"}, joined=100)
    tables = fold_all(log.records)
    (generation,) = rows_of(tables, "generations")
    assert (generation["members"], list(map(ms, generation["written"]))) == (
        ["a2", "b"],
        [100, 200],
    )
    (rebalance,) = rows_of(tables, "rebalances")
    assert (rebalance["joined"], rebalance["replaced"]) == (["a1", "b"], ["a1"])
    assert (rebalance["moved"], rebalance["added"]) == (0, 2)
    assert ends(tables) == {"a1": "replaced", "a2": None, "b": None}
    assert {row["member_id"]: row["replaces"] for row in rows_of(tables, "members")} == {
        "a1": None,
        "a2": "a1",
        "b": None,
    }
    assert [
        (row["partition"], row["member_id"], ms(row["to"]))
        for row in rows_of(tables, "assignments")
    ] == [(0, "a1", 200), (1, "b", None), (0, "a2", None)]


def test_a_replacement_in_another_generation_keeps_the_partitions(log: Log) -> None:
    log.classic(100, 1, {"a1": (0,), "b": (1,)}, instances={"a1": "a"})
    log.classic(200, 2, {"a2": (0,), "b": (1,)}, instances={"a2": "a"})
    tables = fold_all(log.records)
    rebalance = rows_of(tables, "rebalances")[-1]
    assert (rebalance["replaced"], rebalance["kept"], rebalance["moved"]) == (["a1"], 2, 0)


def test_a_cooperative_follow_up_is_a_round_of_the_same_rebalance(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0, 1)})
    log.classic(20_000, 2, {"a": (0,), "b": ()}, joined=19_990)
    log.classic(20_500, 3, {"a": (0,), "b": (1,)}, joined=20_495)
    log.classic(30_000, 4, {"a": (0,), "b": (1,)})
    tables = fold_all(log.records)
    assert [row["generation"] for row in rows_of(tables, "generations")] == [1, 2, 3, 4]
    rows = rows_of(tables, "rebalances")
    assert [(row["generation"], row["rounds"]) for row in rows] == [(1, 1), (2, 2), (4, 1)]
    assert (rows[1]["moved"], rows[1]["kept"], rows[1]["unassigned"]) == (1, 1, 0)
    assert rows[1]["sync_ms"] == 15


def test_a_rebalance_long_after_is_not_a_round(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0, 1)})
    log.classic(2_000, 2, {"a": (0,), "b": ()})
    log.classic(2_000 + SESSION_MS + 1, 3, {"a": (0,), "b": (1,)})
    rows = rows_of(fold_all(log.records), "rebalances")
    assert [(row["generation"], row["rounds"]) for row in rows] == [(1, 1), (2, 1), (3, 1)]


def test_a_group_of_another_protocol_type_has_members_without_partitions(log: Log) -> None:
    log.classic(100, 1, {"a": (0,)}, protocol_type="connect")
    tables = fold_all(log.records)
    assert rows_of(tables, "generations")[0]["protocol_type"] == "connect"
    assert list(ends(tables)) == ["a"]
    assert rows_of(tables, "assignments") == []


def test_the_standstill_is_the_pause_of_a_moved_partition_beyond_the_usual_gap(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0, 1)})
    for time in range(2_000, 6_000, 1_000):
        log.commit(time, 0, 1)
    log.classic(6_000, 2, {"a": (0,), "b": (1,)})
    log.commit(7_000, 0)
    log.commit(9_500, 1)
    log.classic(20_000, 3, {"a": (0,), "b": (1,)})
    rows = rows_of(fold_all(log.records), "rebalances")
    assert [row["standstill_ms"] for row in rows] == [None, 9_500 - 5_000 - 1_000, None]


# --- departures


@pytest.mark.parametrize(
    ("gap", "ended_by"),
    [
        (0, "left"),
        (SESSION_MS - 1, "left"),
        (SESSION_MS, "vanished"),
        (POLL_MS - 1, "vanished"),
        (POLL_MS, "out of the poll loop"),
    ],
)
def test_the_gap_since_the_last_commit_says_how_a_member_ended(
    log: Log, gap: int, ended_by: str
) -> None:
    log.classic(1_000, 1, {"a": (0, 1), "b": (2,)})
    log.commit(2_000, 0, 2)
    log.commit(3_000, 1)
    log.commit(3_000 + gap // 2, 2)
    # The end of the join phase counts, not that of the sync.
    log.classic(200_000, 2, {"b": (0, 1, 2)}, joined=3_000 + gap)
    tables = fold_all(log.records)
    assert ends(tables) == {"a": ended_by, "b": None}
    columns = ("left", "vanished", "out_of_poll_loop", "replaced", "unknown")
    rebalance = rows_of(tables, "rebalances")[-1]
    assert {name: rebalance[name] for name in columns if rebalance[name]} == {
        ended_by.replace(" of the ", "_of_").replace(" ", "_"): ["a"]
    }


def test_the_departure_of_a_member_without_commits_is_unknown(log: Log) -> None:
    log.commit(500, 0)
    log.classic(1_000, 1, {"a": (0,), "b": (1,)})
    log.classic(2_000, 2, {"b": (0, 1)})
    assert ends(fold_all(log.records)) == {"a": "unknown", "b": None}


def test_a_departure_is_unknown_if_the_coordinator_may_have_been_down(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0,), "b": (1,)})
    log.commit(2_000, 0)
    log.classic(2_000 + 3 * SESSION_MS, 2, {"b": (0, 1)})
    assert ends(fold_all(log.records))["a"] == "unknown"
    assert ends(fold_all(log.records, commits=_Noisy()))["a"] == "vanished"


def test_a_session_alone_may_pass_in_silence(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0,), "b": (1,)})
    log.commit(2_000, 0)
    log.classic(2_000 + SESSION_MS + 1_000, 2, {"b": (0, 1)})
    assert ends(fold_all(log.records))["a"] == "vanished"


class _Noisy(Commits):
    def was_silent(self, since: int, until: int) -> bool:
        return False


def test_departures_in_front_of_the_complete_part_are_not_told(log: Log) -> None:
    log.exact_since = None
    log.classic(1_000, 1, {"a": (0,), "b": (1,)})
    log.classic(2_000, 2, {"b": (0, 1)})
    log.exact_since = 2
    log.classic(3_000, 3, {"b": (0, 1), "c": ()})
    tables = fold_all(log.records)
    assert [row["complete"] for row in rows_of(tables, "generations")] == [False, False, True]
    rows = rows_of(tables, "rebalances")
    assert [row["complete"] for row in rows] == [False, False, True]
    assert [row["joined"] for row in rows] == [None, None, ["c"]]
    assert rows[1]["unknown"] is None
    assert ends(tables) == {"a": None, "b": None, "c": None}
    assert [row["complete"] for row in rows_of(tables, "members")] == [False, False, True]


def test_a_record_that_is_not_readable_makes_the_next_rebalance_incomplete(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0,)})
    log.write(2_000, (key(2, G), b"\0\3?"))
    log.classic(3_000, 3, {"b": (0,)})
    log.classic(4_000, 5, {"b": (0,)})
    tables = fold_all(log.records)
    assert [row["error"] is None for row in tables.groups] == [True, False, True, True]
    assert [row["complete"] for row in rows_of(tables, "rebalances")] == [True, False, True]


# --- consumer groups


def first_of_consumer_group(log: Log, time: int = 1_000) -> None:
    log.write(
        time,
        member("a"),
        epoch(2),
        target("a", 0, 1),
        target_epoch(2, time),
        current("a", 2, (0, 1)),
    )


def test_an_epoch_converges_when_all_members_have_reached_it(log: Log) -> None:
    first_of_consumer_group(log)
    log.commit(1_500, 0, 1)
    log.write(2_000, member("b"), epoch(3), current("b", 3, (), (), UNRELEASED))
    # The target assignment may follow.
    log.write(2_100, target("a", 0), target("b", 1), target_epoch(3, 2_099))
    log.write(2_200, current("a", 2, (0,), (1,), UNREVOKED))
    log.write(2_300, current("a", 3, (0,)))
    log.write(2_450, current("b", 3, (1,)))
    log.commit(2_500, 0, 1)
    tables = fold_all(log.records)
    assert generations(tables) == [
        ("consumer", 2, ["a"], "next"),
        ("consumer", 3, ["a", "b"], "open"),
    ]
    assert [ms(row["state_time"]) for row in rows_of(tables, "generations")] == [1_000, 2_099]
    first, second = rows_of(tables, "rebalances")
    assert (first["joined"], first["converge_ms"], first["added"]) == (["a"], 0, 2)
    assert (second["joined"], second["converge_ms"]) == (["b"], 450)
    assert (second["moved"], second["kept"]) == (1, 1)
    assert [
        (
            row["partition"],
            row["member_id"],
            ms(row["from"]),
            ms(row["pending_from"]),
            ms(row["to"]),
        )
        for row in rows_of(tables, "assignments")
    ] == [
        (1, "a", 1_000, 2_200, 2_300),
        (0, "a", 1_000, None, None),
        (1, "b", 2_450, None, None),
    ]
    assert {row["topic"] for row in rows_of(tables, "assignments")} == {"t"}


def test_an_epoch_that_does_not_converge_lasts_until_the_next_one(log: Log) -> None:
    first_of_consumer_group(log)
    log.write(2_000, member("b"), epoch(3))
    log.write(2_700, member("c"), epoch(5))
    rows = rows_of(fold_all(log.records), "rebalances")
    assert [row["converge_ms"] for row in rows] == [0, 700, None]
    skipped = [row["skipped"] for row in rows_of(fold_all(log.records), "generations")]
    assert skipped == [0, 0, 1]


def test_members_of_a_consumer_group_depart_with_the_epoch_after_their_tombstones(log: Log) -> None:
    first_of_consumer_group(log)
    log.commit(2_000, 0)
    log.write(3_000, *removed("a"), epoch(3), target_epoch(3))
    tables = fold_all(log.records)
    assert generations(tables) == [("consumer", 2, ["a"], "empty"), ("consumer", 3, [], "open")]
    (_, last) = rows_of(tables, "rebalances")
    assert (last["left"], last["unassigned"]) == (["a"], 2)
    log.write(4_000, *ended())
    assert generations(fold_all(log.records))[-1] == ("consumer", 3, [], "deleted")


@pytest.mark.parametrize(("gap", "ended_by"), [(9_999, "left"), (10_000, "vanished")])
def test_the_session_of_a_consumer_is_that_of_the_options(
    log: Log, gap: int, ended_by: str
) -> None:
    first_of_consumer_group(log)
    log.commit(2_000, 0)
    log.write(2_000 + gap, *removed("a"), epoch(3))
    assert ends(fold_all(log.records, options=CONSUMER_SESSION)) == {"a": ended_by}


def test_a_static_consumer_that_is_away_is_replaced_without_an_epoch(log: Log) -> None:
    log.write(1_000, member("a1", "a"), epoch(2), target_epoch(2), current("a1", 2, (0,)))
    log.write(2_000, current("a1", -2, (0,)))
    away = fold_all(log.records)
    assert [row["member_id"] for row in rows_of(away, "assignments")] == ["a1"]
    log.write(3_000, *removed("a1"), member("a2", "a"), target("a2", 0), current("a2", 2, (0,)))
    tables = fold_all(log.records)
    assert generations(tables) == [("consumer", 2, ["a2"], "open")]
    (rebalance,) = rows_of(tables, "rebalances")
    assert (rebalance["joined"], rebalance["replaced"]) == (["a1"], ["a1"])
    assert ends(tables) == {"a1": "replaced", "a2": None}
    assert rows_of(tables, "members")[-1]["replaces"] == "a1"


def test_a_static_consumer_that_does_not_return_has_left(log: Log) -> None:
    log.write(1_000, member("a", "a"), epoch(2), target_epoch(2), current("a", 2, (0,)))
    log.commit(2_000, 0)
    log.write(3_000, current("a", -2, (0,)))
    log.write(90_000, *removed("a"), epoch(3))
    assert ends(fold_all(log.records)) == {"a": "left"}


def test_partitions_are_known_by_the_topic_id_until_a_record_names_it(log: Log) -> None:
    first_of_consumer_group(log)
    commits = Commits()
    assert {
        row["topic"] for row in rows_of(fold_all(log.records, commits=commits), "assignments")
    } == {str(T)}
    log.commit(2_000, 0)
    commits = Commits()
    tables = fold_all(log.records, commits=commits)
    assert {row["topic"] for row in rows_of(tables, "assignments")} == {"t"}
    owners = {tp.partition: owner for (_, tp), owner in commits.owners.items() if tp.topic == "t"}
    assert {partition: owner.member_id for partition, owner in owners.items() if owner} == {
        0: "a",
        1: "a",
    }


@pytest.mark.parametrize("named_at", [0, 1, 3, -1])
def test_the_cluster_names_topics_that_no_record_names(log: Log, named_at: int) -> None:
    """Whenever a build begins to know them, also after its state was stored."""
    first_of_consumer_group(log)
    commits = Commits()
    fold = GroupFold(log_partition=0, commits=commits)
    cut = named_at % len(log.records)
    for record in log.records[:cut]:
        apply(fold, commits, record)
    fold = resumed(fold, commits)
    fold.name_topics({str(T): "t", str(UUID(int=9)): "other"})
    for record in log.records[cut:]:
        apply(fold, commits, record)
    open_rows = fold.open_rows()["assignments"]
    fold.end_write()
    assert {row["topic"] for row in open_rows} == {"t"}
    assert {row["topic"] for row in rows_of(Tables.of(fold), "assignments")} == {"t"}
    assert set(fold.topic_names.values()) == {"t"}


def test_a_partition_of_a_recreated_topic_is_its_new_owners(log: Log) -> None:
    """Both have the name of the topic."""
    log.commit(500, 0)
    first_of_consumer_group(log)
    again = UUID(int=2)
    offset = OffsetCommitValue(1, -1, "", 1_500, topic_id=again)
    log.write(1_500, OffsetCommitRecord(OffsetCommitKey("h", "t", 0), offset))
    value = CurrentMemberAssignmentValue(3, 2, 0, {again: {0: 3}}, {})
    log.write(
        *(2_000, member("b"), epoch(3), target_epoch(3)),
        CurrentMemberAssignmentRecord(MemberKey(G, "b"), value),
    )
    log.write(2_100, current("a", 2, (0,), (1,), UNREVOKED))
    log.write(2_200, current("a", 3))
    rows = rows_of(fold_all(log.records), "assignments")
    assert [(row["topic"], row["partition"], row["member_id"], ms(row["to"])) for row in rows] == [
        ("t", 0, "a", 2_000),
        ("t", 1, "a", 2_200),
        ("t", 0, "b", None),
    ]


def test_a_recreated_topic_may_get_its_name_after_its_owner(log: Log) -> None:
    log.commit(500, 0)
    first_of_consumer_group(log)
    again = UUID(int=2)
    value = CurrentMemberAssignmentValue(3, 2, 0, {again: {0: 3}}, {})
    log.write(
        *(2_000, member("b"), epoch(3), target_epoch(3)),
        CurrentMemberAssignmentRecord(MemberKey(G, "b"), value),
    )
    offset = OffsetCommitValue(1, -1, "", 2_500, topic_id=again)
    log.write(2_500, OffsetCommitRecord(OffsetCommitKey("h", "t", 0), offset))
    rows = rows_of(fold_all(log.records), "assignments")
    assert [(row["topic"], row["partition"], row["member_id"], ms(row["to"])) for row in rows] == [
        ("t", 0, "a", 2_000),
        ("t", 0, "b", None),
        ("t", 1, "a", None),
    ]


def test_two_requests_in_one_batch_are_two_epochs(log: Log) -> None:
    log.write(
        1_000,
        *(member("a"), epoch(2), target_epoch(2), current("a", 2, (0,))),
        *(member("b"), epoch(3), target_epoch(3), current("b", 3)),
        *(*removed("b"), epoch(4)),
    )
    tables = fold_all(log.records)
    assert generations(tables) == [
        ("consumer", 2, ["a"], "next"),
        ("consumer", 3, ["a", "b"], "next"),
        ("consumer", 4, ["a"], "open"),
    ]


def test_the_protocol_of_an_epoch_is_the_assignor_that_most_members_name(log: Log) -> None:
    log.write(
        *(1_000, member("a", assignor="range"), member("b", assignor="uniform")),
        *(member("c", assignor="uniform"), epoch(2)),
    )
    assert rows_of(fold_all(log.records), "generations")[0]["protocol"] == "uniform"


# --- conversions


def upgrade(log: Log) -> None:
    log.classic(1_000, 3, {"a": (0,), "b": (1,)})
    log.commit(1_500, 0, 1)
    log.write(
        2_000,
        *(classic_tombstone(), member("a", is_classic=True), member("b", is_classic=True)),
        *(epoch(3), target("a", 0), target("b", 1), target_epoch(3)),
        *(current("a", 3, (0,)), current("b", 3, (1,))),
        *(member("c"), epoch(4), target("c"), target_epoch(4), current("c", 4)),
    )


def test_an_upgrade_keeps_life_members_and_partitions(log: Log) -> None:
    upgrade(log)
    tables = fold_all(log.records)
    assert generations(tables) == [
        ("classic", 3, ["a", "b"], "converted"),
        ("consumer", 3, ["a", "b"], "next"),
        ("consumer", 4, ["a", "b", "c"], "open"),
    ]
    assert {row["life"] for row in rows_of(tables, "generations")} == {0}
    assert {row["life"] for row in tables.groups} == {0}
    assert [row["skipped"] for row in rows_of(tables, "generations")] == [None, 0, 0]
    assert ends(tables) == {"a": None, "b": None, "c": None}
    assert [(row["member_id"], ms(row["from"])) for row in rows_of(tables, "assignments")] == [
        ("a", 1_000),
        ("b", 1_000),
    ]
    assert [(row["joined"], row["kept"]) for row in rows_of(tables, "rebalances")] == [
        (["a", "b"], 0),
        ([], 2),
        (["c"], 2),
    ]


def test_a_downgrade_removes_only_the_member_that_has_left(log: Log) -> None:
    upgrade(log)
    log.write(
        3_000,
        *(*removed("c")[:1], *removed("a")[:1], *removed("b")[:1]),
        *(*removed("c")[1:2], *removed("a")[1:2], *removed("b")[1:2], target_epoch(None)),
        *(*removed("c")[2:], *removed("a")[2:], *removed("b")[2:], *ended()[1:]),
        classic(5, {"a": (0,), "b": (1,)}, joined=3_000),
    )
    tables = fold_all(log.records)
    assert generations(tables)[2:] == [
        ("consumer", 4, ["a", "b", "c"], "converted"),
        ("classic", 5, ["a", "b"], "open"),
    ]
    assert {row["life"] for row in rows_of(tables, "generations")} == {0}
    assert ends(tables) == {"a": None, "b": None, "c": "unknown"}
    last = rows_of(tables, "rebalances")[-1]
    assert (last["type"], last["unknown"], last["kept"], last["sync_ms"]) == (
        *("classic", ["c"], 2),
        None,
    )
    assert [ms(row["from"]) for row in rows_of(tables, "assignments")] == [1_000, 1_000]


def test_a_conversion_of_partitions_without_a_name_is_not_complete(log: Log) -> None:
    """Classic records have names, the others ids: nothing says which are the same."""
    log.classic(1_000, 3, {"a": (0,)})
    log.write(
        *(2_000, classic_tombstone(), member("a", is_classic=True), epoch(3)),
        *(target_epoch(3), current("a", 3, (0,))),
    )
    assert [row["complete"] for row in rows_of(fold_all(log.records), "rebalances")] == [
        True,
        False,
    ]


def test_an_empty_group_of_the_other_type_ends_a_life(log: Log) -> None:
    log.classic(1_000, 0)
    log.classic(1_100, 1, {"x": (0,)})
    log.classic(1_200, 2)
    log.write(
        2_000,
        *(classic_tombstone(), member("a"), epoch(2), target_epoch(2), current("a", 2, (0,))),
    )
    log.write(3_000, *removed("a"), epoch(3))
    log.write(4_000, *ended(), classic(0, joined=4_000))
    tables = fold_all(log.records)
    rows = rows_of(tables, "generations")
    assert [(row["type"], row["generation"], row["life"], row["ended_by"]) for row in rows] == [
        ("classic", 0, 0, "next"),
        ("classic", 1, 0, "empty"),
        ("classic", 2, 0, "converted"),
        ("consumer", 2, 4, "empty"),
        ("consumer", 3, 4, "converted"),
        ("classic", 0, 15, "open"),
    ]
    assert [row["life"] for row in tables.groups] == [0] * 4 + [4] * 11 + [15]


def test_a_group_that_had_only_commits_goes_on_in_that_life(log: Log) -> None:
    log.commit(1_000, 0)
    log.write(
        2_000,
        *(classic_tombstone(), member("a"), epoch(2), target_epoch(2), current("a", 2, (0,))),
    )
    tables = fold_all(log.records)
    assert {row["life"] for row in (*tables.groups, *rows_of(tables, "generations"))} == {0}


def test_the_tombstone_of_a_group_that_had_only_commits_leaves_no_state(log: Log) -> None:
    log.commit(1_000, 0)
    log.write(2_000, classic_tombstone())
    commits = Commits()
    fold = GroupFold(log_partition=0, commits=commits)
    empty = fold.dump()
    commits.commit(G, next(iter(commits.times), (G, None))[1], LogPosition(0, 1_000))
    fold.apply(log.records[1].key, None, log.records[1].at)
    fold.end_write()
    assert fold.dump() == empty
    assert [row["life"] for row in fold.rows["groups"]] == [0]


# --- share and streams groups


def test_a_share_group_has_epochs_and_members(log: Log) -> None:
    share_member = b"\0\0" + b"\0" + b"\2c" + b"\2h" + b"\2\2t" + b"\0"
    share_epoch = b"\0\0" + (2).to_bytes(4, "big") + bytes(8) + b"\0"
    share_target = b"\0\0" + (2).to_bytes(4, "big") + b"\0"
    share_current = b"\0\0" + (2).to_bytes(4, "big") * 2 + b"\0" + b"\1" + b"\0"
    named = b"\2" + T.bytes + b"\2t" + b"\2" + bytes(4) + b"\0"
    state = b"\0\0" + b"\1" + named + b"\1" + b"\0"
    log.write(
        1_000,
        *((key(10, G, "a"), share_member), (key(11, G), share_epoch)),
        *((key(13, G, "a"), b"\0\0\1\0"), (key(12, G), share_target)),
        *((key(14, G, "a"), share_current), (key(15, G), state)),
    )
    commits = Commits()
    fold = GroupFold(log_partition=0, commits=commits)
    for record in log.records:
        fold.apply(record.key, record.value, record.at)
    fold.end_write()
    tables = Tables.of(fold)
    assert [row["error"] for row in tables.groups] == [None] * 6
    assert generations(tables) == [("share", 2, ["a"], "open")]
    assert rows_of(tables, "rebalances")[0]["converge_ms"] == 0
    assert fold.topic_names == {T: "t"}
    assert fold.subscribes(G, "t")
    assert '"topic": "t"' in tables.groups[-1]["other"]["json"]


def test_a_streams_group_has_epochs_members_and_tasks(log: Log) -> None:
    four = (4).to_bytes(4, "big")
    streams_member = (
        b"\0\0" + b"\0\0" + b"\2c" + b"\2h" + four + four + b"\2p" + b"\1\2x\0\7\0" + b"\1" + b"\0"
    )
    streams_epoch = b"\0\0" + four + bytes(8) + b"\1\0\4" + bytes(4)
    tasks = b"\2" + b"\2s" + b"\2" + bytes(4) + b"\0"
    streams_current = b"\0\0" + four * 2 + b"\0" + tasks + b"\1" * 5 + b"\0"
    log.write(
        1_000,
        *((key(19, G, "a"), streams_member), (key(17, G), streams_epoch)),
        *(
            (key(21, G, "a"), b"\0\0" + tasks + b"\1\1" + b"\0"),
            (key(20, G), b"\0\0" + four + b"\0"),
        ),
        (key(22, G, "a"), streams_current),
    )
    tables = fold_all(log.records)
    assert [row["error"] for row in tables.groups] == [None] * 5
    assert generations(tables) == [("streams", 4, ["a"], "open")]
    assert tables.groups[0]["member"]["endpoint"] == "x:7"
    assert tables.groups[1]["epoch"]["topology_epoch"] == 0
    assert tables.groups[4]["current"]["tasks"] == [
        {"kind": "active", "subtopology": "s", "partitions": [0]}
    ]
    log.write(2_000, (key(22, G, "a"), None), (key(19, G, "a"), None), (key(17, G), None))
    log.records.append(log.records[-1]._replace(key=key(23, G)))
    assert generations(fold_all(log.records)) == [("streams", 4, ["a"], "deleted")]


# --- writes and state


def test_rows_of_open_writes_are_as_if_they_had_ended(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0,)})
    log.write(2_000, classic_tombstone())
    commits = Commits()
    fold = GroupFold(log_partition=0, commits=commits)
    for record in log.records:
        fold.apply(record.key, record.value, record.at)
    before = fold.dump()
    rows = fold.open_rows()
    assert [row["ended_by"] for row in rows["generations"]] == ["deleted"]
    assert fold.rows["generations"] == []
    assert fold.dump() == before
    assert commits.owners[G, next(iter(commits.owners))[1]] is not None
    fold.end_write()
    assert [row["ended_by"] for row in fold.rows["generations"]] == ["deleted"]
    assert fold.life(G) is None


def test_groups_that_share_a_batch_are_apart(log: Log) -> None:
    log.write(
        1_000,
        *(classic(1, {"a": (0,)}, joined=900), classic(1, {"b": (0,)}, joined=900, group="h")),
        *(classic_tombstone(), classic_tombstone("h")),
    )
    tables = fold_all(log.records)
    assert [(row["group"], row["ended_by"]) for row in rows_of(tables, "generations")] == [
        ("g", "deleted"),
        ("h", "deleted"),
    ]


def test_a_static_member_may_return_with_a_former_member_id(log: Log) -> None:
    for time, member_id in enumerate(("a1", "a2", "a1"), start=1):
        log.classic(time * 100, 1, {member_id: (0,)}, instances={member_id: "a"}, joined=100)
    (rebalance,) = rows_of(fold_all(log.records), "rebalances")
    assert (rebalance["replaced"], rebalance["added"], rebalance["moved"]) == (["a1", "a2"], 1, 0)


def test_rows_that_began_before_the_complete_part_are_not_complete(log: Log) -> None:
    log.classic(1_000, 1, {"a": (0,), "b": (1,)})
    # Between them, the cleaner has removed records.
    log.exact_since = 1
    log.classic(90_000, 2, {"b": (0, 1)})
    tables = fold_all(log.records)
    assert [row["complete"] for row in rows_of(tables, "generations")] == [False, True]
    assert [row["joined"] for row in rows_of(tables, "rebalances")] == [None, []]
    assert {row["member_id"]: row["complete"] for row in rows_of(tables, "members")} == {
        "a": False,
        "b": True,
    }
