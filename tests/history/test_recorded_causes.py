"""Resets, deletions and expiry in a log that Apache Kafka wrote are told from each other."""

from collections import defaultdict

from history.folded import whole
from history.recorded import load

RESET = "--reset-offsets"


def test_a_tombstone_has_the_cause_that_was_done() -> None:
    """Tombstones at the end of a log partition may wait for what comes after them."""
    causes: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for row in whole("offsets").commits:
        if row["kind"] == "tombstone":
            causes[row["group"], f"{row['topic']}-{row['partition']}"].add(row["cause"])
    assert causes["shrinking", "news-0"] == {"offsets deleted"}
    assert causes["deleted", "orders-0"] == causes["deleted", "orders-1"] == {"group deleted"}
    for group in ("shrinking", "expiring", "billing"):
        assert causes[group, "orders-0"] <= {"expired", None}
    for group, partition in (("overtaken", 0), ("aborted", 0), ("interleaved", 2)):
        assert causes[group, f"booked-{partition}"] == {"expired"}
    assert causes["ledger", "ledger-0"] <= {"expired", None}


def test_a_reset_is_a_rewind_of_all_partitions_from_outside() -> None:
    did = [each for each in load("offsets").events if RESET in each.get("what", "")]
    assert [each["group"] for each in did] == ["billing", "billing"]
    outside = [
        row
        for row in whole("offsets").commits
        if row["group"] == "billing" and row["origin"] == "outside"
    ]
    first, second = sorted({row["commit_time"] for row in outside})
    to_earliest = [row for row in outside if row["commit_time"] == first]
    assert {(row["partition"], row["committed"]) for row in to_earliest} == {
        (number, 0) for number in range(6)
    }
    assert {row["kind"] for row in to_earliest} == {"rewind"}
    shifted = [row for row in outside if row["commit_time"] == second]
    assert {(row["partition"], row["committed"], row["advance"]) for row in shifted} == {
        (number, 2, 2) for number in range(6)
    }
    for time, event in ((first, did[0]), (second, did[1])):
        assert 0 <= event["at"] - time.timestamp() * 1000 < 10_000


def test_transactions_count_from_their_markers_and_aborted_ones_never() -> None:
    rows = [row for row in whole("offsets").commits if row["group"] == "interleaved"]
    counted = {
        (row["partition"], row["committed"]): row["kind"]
        for row in rows
        if row["in_force"] is not None and row["committed"] is not None
    }
    # `one` wrote 10, `two` wrote 20 after it and committed before it.
    assert counted[0, 20] == "first"
    assert counted[0, 10] == "superseded"
    assert counted[1, 11] == counted[2, 32] == "first"
    never = {(row["partition"], row["committed"]) for row in rows if row["txn"] == "aborted"}
    assert never == {(3, 50)}
    aborted = [row for row in whole("offsets").commits if row["group"] == "aborted"]
    assert {row["committed"] for row in aborted if row["txn"] == "aborted"} == {30, 51}


def test_joins_of_rebalances_are_the_members_that_were_started() -> None:
    for name in ("classic", "consumer", "offsets"):
        joined = [
            (row["group"], member_id)
            for row in whole(name).rebalances
            for member_id in row["joined"] or ()
        ]
        members = {row["member_id"]: row for row in whole(name).members}
        assert len(joined) == len(set(joined))
        for group, member_id in joined:
            assert members[member_id]["group"] == group
        replacing = {row["member_id"] for row in members.values() if row["replaces"]}
        assert {member_id for _, member_id in joined} | replacing == members.keys()
