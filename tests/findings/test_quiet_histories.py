"""Groups that work as they should have no findings."""

from collections.abc import Callable

import pytest

from findings.group_log import GroupLog, findings
from kohort.types import TopicPartition

HOUR = 3_600
ASSIGNORS = ["range", "cooperative-sticky"]


def started(members: int, **options: object) -> GroupLog:
    log = GroupLog(**options)  # type: ignore[arg-type]
    log.rebalance()
    for number in range(members):
        log.now += 3
        log.join(f"app-{number}", host=f"/10.0.0.{number}")
    return log


def steady_group() -> GroupLog:
    log = started(3)
    log.work(3 * HOUR)
    return log


def deploys() -> GroupLog:
    """Two deploys, an hour apart: all stop, and all start."""
    log = started(4)
    for _ in range(2):
        log.work(HOUR)
        for client in list(log.members.values()):
            log.now += 2
            log.leave(client)
        log.now += 30
        for number in range(4):
            log.now += 4
            log.join(f"app-{number}", host=f"/10.0.0.{number}")
    log.work(HOUR)
    return log


def rolling_restart() -> GroupLog:
    """Ten pods, each with a new host, one after the other."""
    log = started(10, topics={"orders": 20})
    log.work(HOUR)
    for client in list(log.members.values()):
        log.restart(client, away=15, host=f"/10.0.1.{client.host[-1]}")
        log.work(20)
    log.work(HOUR)
    return log


def threads_of_one_process() -> GroupLog:
    """Ten consumers with one client id and one host are restarted together."""
    log = GroupLog(topics={"orders": 20})
    for _ in range(3):
        clients = log.join(*(["app"] * 10))
        log.work(HOUR)
        log.leave(*clients)
        log.now += 40
    log.join(*(["app"] * 10))
    log.work(HOUR)
    return log


def cooperative_group() -> GroupLog:
    log = started(2, protocol="cooperative-sticky")
    log.work(HOUR)
    log.join("app-2", host="/10.0.0.2")
    moved = [tp for tp in log.owners if log.owners[tp].startswith("app-2")]
    for tp in moved:  # the first round takes, the second gives
        log.owners.pop(tp)
    log.now += 0.5
    log.rebalance(log.owners)
    log.now += 0.5
    log.rebalance()
    log.work(HOUR)
    return log


def static_members() -> GroupLog:
    """Restarts within the session keep the generation."""
    log = GroupLog()
    clients = log.join("app-0", instance_id="i-0") + log.join("app-1", instance_id="i-1")
    for _ in range(3):
        log.work(HOUR)
        clients = [log.replace(client, host=f"/10.0.{log.joins}.1") for client in clients]
    log.work(HOUR)
    return log


def consumer_group() -> GroupLog:
    """KIP-848, with a deploy."""
    log = GroupLog(is_consumer=True)
    clients = [log.join(f"app-{number}", host=f"/10.0.0.{number}")[0] for number in range(3)]
    log.work(HOUR)
    for client in clients:
        log.restart(client)
        log.work(30)
    log.work(HOUR)
    return log


def transactional_group() -> GroupLog:
    """Exactly once: commits by transactions, several times a second."""
    log = started(2)
    for turn in range(1, 2_000):
        log.now += 0.25
        for producer_id, member_id in enumerate(log.members, 1):
            offsets = dict.fromkeys(log.owned(member_id), turn * 2)
            log.commit(offsets, producer_id=producer_id)
            log.marker(producer_id)
    return log


def autoscaling_group() -> GroupLog:
    """Members come with the load and go with it, each pod with its own host and default id."""
    log = started(2, topics={"orders": 12})
    log.work(2 * HOUR)
    pods = []
    for number in range(5):
        log.work(40)
        pods += log.join("consumer-billing-1", host=f"/10.2.0.{number}")
    log.work(20 * 60)
    for pod in pods:
        log.work(40)
        log.leave(pod)
    log.work(HOUR)
    return log


def nightly_pause() -> GroupLog:
    """No records for hours, in which the group is deployed; nothing is committed meanwhile."""
    log = started(3)
    log.work(HOUR)
    log.now += 5 * HOUR
    for client in list(log.members.values()):
        log.restart(client)
    log.now += HOUR
    log.work(HOUR)
    return log


def batch_job() -> GroupLog:
    """A job without members that commits all partitions each ten minutes, as Spark does."""
    log = GroupLog()
    for turn in range(1, 40):
        log.now += 600
        log.commit(dict.fromkeys(range(6), turn * 900))
    return log


def two_topics() -> GroupLog:
    """Members of one group with unlike subscriptions."""
    log = GroupLog(topics={"orders": 6, "prices": 1})
    log.join("app-0", topics=("orders",))
    log.join("app-1", topics=("prices",))
    log.work(2 * HOUR)
    return log


def growing_topic() -> GroupLog:
    """A topic gets more partitions, and members subscribe to another topic."""
    log = started(3)
    log.work(HOUR)
    log.topics["orders"] = 12
    log.rebalance()
    log.work(HOUR)
    log.topics["refunds"] = 3
    for client in log.members.values():
        client.topics = ("orders", "refunds")
    log.rebalance()
    log.work(HOUR)
    return log


def little_data() -> GroupLog:
    """A record now and then, each of which is committed."""
    log = started(2)
    for turn in range(1, 30):
        log.now += 700
        tp = TopicPartition("orders", turn % 6)
        log.commit({tp: log.offsets.get(tp, 0) + 1})
    return log


QUIET = (
    steady_group, deploys, rolling_restart, threads_of_one_process, cooperative_group,
    static_members, consumer_group, transactional_group, autoscaling_group, nightly_pause,
    batch_job, two_topics, growing_topic, little_data,
)  # fmt: skip


@pytest.mark.parametrize("history", QUIET)
def test_a_group_that_works_has_no_findings(history: Callable[[], GroupLog]) -> None:
    assert findings(history()) == []


@pytest.mark.parametrize("history", QUIET[:4])
def test_a_group_that_works_has_none_at_any_moment(history: Callable[[], GroupLog]) -> None:
    log = history()
    rows = log.rows
    for share in (0.3, 0.6, 0.9):
        log.rows = rows[: int(len(rows) * share)]
        last = log.rows[-1]["timestamp"]
        until = (last - log.rows[0]["timestamp"]).total_seconds()
        assert findings(log, until=until) == []
