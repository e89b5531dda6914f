"""Rules about members: the planted fault is found, and its quiet neighbour is not."""

from dataclasses import replace

import pytest

from findings.group_log import GroupLog, at, findings, found, ids
from kohort.findings.thresholds import Thresholds

HOUR = 3_600


def group(**options) -> GroupLog:
    log = GroupLog(**options)
    log.rebalance()
    log.join("app-0", host="/10.0.0.1")
    log.join("app-1", host="/10.0.0.2")
    log.work(HOUR)
    return log


# --- flapping-member


def flapping(times: int, **options) -> GroupLog:
    log = group(**options)
    for _ in range(times):
        (client,) = log.join("worker", host="/10.0.0.9")
        log.work(60)
        log.leave(client)
        log.work(30)
    return log


@pytest.mark.parametrize("is_consumer", [False, True])
def test_a_client_that_joins_four_times_in_ten_minutes_flaps(is_consumer):
    (finding,) = found(flapping(5, is_consumer=is_consumer), "flapping-member")
    assert finding.subject == "worker at 10.0.0.9"
    assert finding.text.startswith(
        "worker at 10.0.0.9 joined 5 times in 6 min; its members ended by: 5 × left."
    )
    assert finding.since == at(HOUR)
    assert len(finding.evidence) == 5


def test_three_joins_are_no_flapping():
    assert found(flapping(3), "flapping-member") == []


def test_joins_with_time_between_are_no_flapping():
    log = group()
    for _ in range(5):
        (client,) = log.join("worker")
        log.work(400)
        log.leave(client)
    assert found(log, "flapping-member") == []


def test_one_of_ten_threads_with_one_client_id_flaps():
    log = GroupLog(topics={"orders": 20})
    threads = log.join(*(["app"] * 10))
    log.work(HOUR)
    for _ in range(5):
        log.leave(threads[-1])
        log.work(30)
        threads[-1:] = log.join("app")
        log.work(60)
    (finding,) = found(log, "flapping-member")
    assert "joined 5 times" in finding.text


def test_joins_in_a_gap_of_the_log_are_not_counted():
    log = flapping(4)
    assert found(log, "flapping-member")
    generations = [row["offset"] for row in log.rows if row["key"][:2] == b"\0\2"]
    second = generations[5]  # after the empty one, two members, and the first join and departure
    assert found(log, "flapping-member", missing=range(second, second + 1)) == []


# --- static-collision


def collision(replacements: int, hosts: int) -> GroupLog:
    log = group()
    (client,) = log.join("till", instance_id="till-1", host="/10.1.0.0")
    log.work(60)
    for number in range(1, replacements + 1):
        log.now += 20
        client = log.replace(client, host=f"/10.1.0.{number % hosts}")
        log.work(20)
    return log


def test_two_processes_with_one_instance_id_collide():
    log = collision(4, hosts=2)
    (finding,) = found(log, "static-collision")
    assert finding.subject == "till-1"
    assert finding.severity == "error"
    assert "replaced 4 times in 2 min by till at 10.1.0.0, till at 10.1.0.1" in finding.text
    assert "flapping-member" not in ids(findings(log))


def test_a_static_member_of_one_host_does_not_collide():
    assert found(collision(3, hosts=1), "static-collision") == []


def test_an_instance_of_one_client_id_and_host_may_be_several_processes():
    """A classic group of Apache Kafka logs those of the first process for all."""
    (finding,) = found(collision(4, hosts=1), "flapping-member")
    assert "its members ended by: 4 × replaced, 1 × still there; several processes" in finding.text


def test_two_replacements_are_no_collision():
    assert found(collision(2, hosts=2), "static-collision") == []


# --- departures


def stalled(poll_s: float, *, has_records: bool = True) -> GroupLog:
    """A member does not poll until it is removed; it joins again later."""
    log = group()
    (client,) = log.join("slow", host="/10.0.0.9", poll_s=poll_s, session_s=10)
    log.work(600)
    if has_records:
        log.work(poll_s + 5, every=5, idle=[client.member_id])
    else:
        log.now += poll_s
    log.leave(client)
    if has_records:
        log.work(60)
        log.join("slow", host="/10.0.0.9", poll_s=poll_s, session_s=10)
        log.work(300)
    return log


def test_a_member_that_does_not_poll_is_found_with_its_longest_gap():
    (finding,) = found(stalled(120), "out-of-poll-loop")
    assert finding.subject == "slow at 10.0.0.9"
    assert (
        "left the poll loop 1 time; its longest time without a commit was 2 min 5 s" in finding.text
    )


def test_a_member_without_records_that_leaves_is_not_out_of_its_poll_loop():
    assert found(stalled(120, has_records=False), "out-of-poll-loop") == []


def vanishing(times: int, session_s: float, away: float = 20) -> GroupLog:
    log = group()
    for _ in range(times):
        (client,) = log.join("frail", host="/10.0.0.9", session_s=session_s)
        log.work(600, every=5)
        log.work(session_s + 2, every=5, idle=[client.member_id])
        log.leave(client)
        log.work(away, every=5)
    log.join("frail", host="/10.0.0.9", session_s=session_s)
    log.work(300)
    return log


def test_sessions_that_end_in_short_pauses_are_too_short():
    (finding,) = found(vanishing(3, 10), "session-too-short")
    assert "expired 3 times" in finding.text
    assert "its session timeout is 10 s" in finding.text


@pytest.mark.parametrize(
    ("times", "session_s", "away"), [(2, 10, 20), (3, 45, 20), (3, 10, 120)],
    ids=["twice only", "a long session", "back after two minutes"],
)  # fmt: skip
def test_sessions_are_long_enough_otherwise(times, session_s, away):
    assert found(vanishing(times, session_s, away), "session-too-short") == []


# --- stranger


def visited(client_id: str, stay: float = 120, host: str = "/10.9.9.9") -> GroupLog:
    log = group()
    log.work(25 * HOUR, every=60)
    (client,) = log.join(client_id, host=host)
    log.work(stay)
    log.leave(client)
    log.work(HOUR)
    return log


def test_a_console_consumer_in_an_old_group_is_a_stranger():
    (finding,) = found(visited("console-consumer"), "stranger")
    assert finding.severity == "info"
    assert (
        "console-consumer at 10.9.9.9 was a member for 2 min and owned 2 partitions" in finding.text
    )


@pytest.mark.parametrize(
    ("client_id", "stay", "host"),
    [("app-2", 120, "/10.9.9.9"), ("console-consumer", 900, "/10.9.9.9"),
     ("console-consumer", 120, "/10.0.0.1")],
    ids=["a client id of the application", "a long stay", "a host of the application"],
)  # fmt: skip
def test_other_visitors_are_no_strangers(client_id, stay, host):
    assert found(visited(client_id, stay, host), "stranger") == []


def test_a_young_group_has_no_strangers():
    log = group()
    (client,) = log.join("console-consumer", host="/10.9.9.9")
    log.work(60)
    log.leave(client)
    assert found(log, "stranger") == []


def test_thresholds_move_the_limits():
    log = flapping(3)
    assert found(log, "flapping-member", thresholds=replace(Thresholds(), flapping_joins=3))
