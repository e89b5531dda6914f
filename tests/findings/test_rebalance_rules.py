"""Rules about rebalances: the planted fault is found, and its quiet neighbour is not."""

import pytest

from findings.group_log import GroupLog, at, findings, found, ids
from kohort.types import TopicPartition

HOUR = 3_600


def group(members: int = 4, **options) -> GroupLog:
    log = GroupLog(**options)
    log.rebalance()
    for number in range(members):
        log.join(f"app-{number}", host=f"/10.0.0.{number}")
    log.work(HOUR)
    return log


# --- rebalance-storm


@pytest.mark.parametrize("is_consumer", [False, True])
def test_rebalances_that_no_restart_explains_are_a_storm(is_consumer):
    log = group(is_consumer=is_consumer)
    for _ in range(5):
        log.rebalance()
        log.work(60)
    (finding,) = found(log, "rebalance-storm")
    assert finding.text.startswith("5 rebalances in 4 min by 0 clients, without a change")
    assert finding.since == at(HOUR)


def test_a_client_that_comes_and_goes_is_named():
    log = group()
    for _ in range(3):
        (client,) = log.join("worker", host="/10.0.0.9")
        log.work(30)
        log.leave(client)
        log.work(30)
    (finding,) = found(log, "rebalance-storm")
    assert (
        "6 rebalances in 2 min 30 s by 1 client; most often of worker at 10.0.0.9" in finding.text
    )


def test_four_rebalances_are_no_storm():
    log = group()
    for _ in range(4):
        log.rebalance()
        log.work(60)
    assert found(log, "rebalance-storm") == []


def test_restarts_of_all_members_are_no_storm():
    log = group()
    for client in list(log.members.values()):
        log.restart(client, away=10)
        log.work(20)
    assert found(log, "rebalance-storm") == []


def standing_still(times: int, seconds: float, protocol: str = "range") -> GroupLog:
    """Each rebalance moves partitions, and nothing is committed for some time after it."""
    log = group(protocol=protocol)
    owners = list(log.members)
    for turn in range(times):
        shifted = owners[turn % 4 :] + owners[: turn % 4]
        log.rebalance(
            {TopicPartition("orders", number): shifted[number % 4] for number in range(6)}
        )
        log.now += seconds
        log.work(900 - seconds)
    return log


def test_a_standstill_of_a_fifth_of_an_hour_is_a_storm():
    (finding,) = found(standing_still(4, 200), "rebalance-storm")
    assert finding.subject == "standstill"
    assert "stopped partitions for" in finding.text


def test_shorter_standstills_are_no_storm():
    assert found(standing_still(4, 100), "rebalance-storm") == []


# --- eager-standstill


def test_an_eager_group_that_stands_still_often_is_found():
    (finding,) = found(standing_still(11, 40), "eager-standstill")
    assert "rebalances in" in finding.text
    assert "cooperative" in finding.text.lower()


@pytest.mark.parametrize(
    ("times", "seconds", "protocol"),
    [(11, 40, "cooperative-sticky"), (11, 8, "range"), (8, 40, "range")],
    ids=["a cooperative group", "short standstills", "few rebalances"],
)
def test_other_groups_do_not_stand_still(times, seconds, protocol):
    assert found(standing_still(times, seconds, protocol), "eager-standstill") == []


# --- mixed-assignors


def test_an_assignor_that_changes_back_is_mixed():
    log = group()
    for protocol in ("roundrobin", "range", "roundrobin"):
        log.protocol = protocol
        log.rebalance()
        log.work(1_000)
    (finding,) = found(log, "mixed-assignors")
    assert "changed 3 times in 33 min 20 s between range, roundrobin" in finding.text


def test_a_change_to_another_assignor_is_a_deploy():
    log = group()
    log.protocol = "cooperative-sticky"
    log.rebalance()
    log.work(HOUR)
    assert found(log, "mixed-assignors") == []


def naming(**fields) -> GroupLog:
    log = GroupLog(is_consumer=True)
    log.join("app-0", assignor="uniform")
    log.join("app-1", **fields)
    log.work(2 * HOUR, every=30)
    return log


def test_members_that_name_unlike_assignors_are_mixed():
    (finding,) = found(naming(assignor="range"), "mixed-assignors")
    assert "2 members name unlike assignors: range; uniform" in finding.text


@pytest.mark.parametrize(
    "fields", [{"assignor": "uniform"}, {}, {"protocols": ("range",)}],
    ids=["the same", "the broker's", "a classic member"],
)  # fmt: skip
def test_members_that_may_agree_are_not_mixed(fields):
    assert found(naming(**fields), "mixed-assignors") == []


def test_members_may_differ_for_the_time_of_a_deploy():
    log = GroupLog(is_consumer=True)
    log.join("app-0", assignor="uniform")
    log.work(2 * HOUR, every=30)
    log.join("app-1", assignor="range")
    log.work(1_000)
    assert found(log, "mixed-assignors") == []


# --- unsynced-generations


def unsynced(*skipped: int) -> GroupLog:
    log = group()
    for number in skipped:
        log.rebalance(skipped=number)
        log.work(100)
    return log


def test_many_generations_without_a_sync_are_found():
    (finding,) = found(unsynced(2, 2, 3), "unsynced-generations")
    assert finding.text.startswith("7 generations were never synced, up to generation 15.")


def test_members_that_start_one_after_the_other_leave_some_without_a_sync():
    assert found(unsynced(1, 1, 1), "unsynced-generations") == []


def test_a_hole_in_the_log_is_no_generation_without_a_sync():
    log = group()
    offsets = []
    for _ in range(8):
        log.rebalance()
        offsets.append(len(log.rows) - 1)
        log.work(30)
    missing = range(offsets[0], offsets[-1])
    assert "unsynced-generations" not in ids(findings(log, missing=missing))
