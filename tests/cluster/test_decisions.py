"""Who leads what, and what moves."""

import sys
from collections import Counter
from types import FrameType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.simulation import decided
from kohort.cluster import (
    MAX_MOVES,
    REBALANCE_DELAY_MS,
    Cluster,
    Leader,
    LeaderChanged,
    Liveness,
    NodeFenced,
    NodeRecord,
    NodeRegistered,
    Observed,
    ReassignmentPlanned,
    TopicKind,
    TopicSize,
    decide,
    situation,
)
from kohort.cluster.decisions import LEADER_BATCH, MAX_DRAIN_MOVES
from kohort.types import Timestamp, TopicIdPartition

GROUPS = UUID(int=1)
TOPIC = UUID(int=2)
TOPICS = {GROUPS: TopicSize(TopicKind.GROUPS, 10), TOPIC: TopicSize(TopicKind.RECORDS, 4)}
NOW = Timestamp(1_000_000)


def registered(
    node: int, *, session: int = 1, at: int = 0, is_draining: bool = False
) -> NodeRegistered:
    return NodeRegistered(node, session, (), Timestamp(at), is_draining=is_draining)


def cluster_of(*nodes: NodeRegistered) -> Cluster:
    cluster = Cluster()
    for node in nodes:
        cluster.replay(node)
    return cluster


def observed(*nodes: int, session: int = 1, trusts_locks: bool = True) -> Observed:
    liveness = Liveness(session, Timestamp(NOW + 3_000))
    return Observed(NOW, dict.fromkeys(nodes, liveness), trusts_locks=trusts_locks)


def apply(cluster: Cluster, seen: Observed) -> list[NodeRecord]:
    records = decided(cluster, TOPICS, seen)
    for record in records:
        cluster.replay(record)
    return list(records)


def shares(cluster: Cluster, topic: UUID = GROUPS) -> list[int]:
    partitions = [
        TopicIdPartition(topic, partition) for partition in range(TOPICS[topic].partitions)
    ]
    return sorted(Counter(cluster.leader(partition).node for partition in partitions).values())


def test_partitions_without_a_leader_are_spread_by_purpose() -> None:
    cluster = cluster_of(registered(1), registered(2), registered(3))
    apply(cluster, observed(1, 2, 3))
    assert shares(cluster) == [3, 3, 4]
    assert shares(cluster, TOPIC) == [1, 1, 2]
    assert not apply(cluster, observed(1, 2, 3))


def test_a_node_whose_lease_is_over_is_fenced_and_its_partitions_are_spread() -> None:
    cluster = cluster_of(registered(1), registered(2), registered(3))
    apply(cluster, observed(1, 2, 3))
    taken = set(cluster.led_by(3))
    records = apply(cluster, observed(1, 2))
    assert records[0] == NodeFenced(3)
    assert {each.partition for each in records if isinstance(each, LeaderChanged)} == taken
    assert {cluster.leaders[partition].epoch for partition in taken} == {1}
    assert shares(cluster) == [5, 5]


def test_a_lock_that_is_gone_says_that_the_process_is() -> None:
    cluster = cluster_of(registered(1), registered(2))
    nodes = {
        1: Liveness(1, Timestamp(NOW + 3_000)),
        2: Liveness(1, Timestamp(NOW + 3_000), holds_lock=False),
    }
    assert NodeFenced(2) in decided(cluster, TOPICS, Observed(NOW, nodes))
    restarted = Observed(NOW, nodes, trusts_locks=False)
    assert NodeFenced(2) not in decided(cluster, TOPICS, restarted)


def test_a_process_that_starts_again_in_time_keeps_its_partitions() -> None:
    cluster = cluster_of(registered(1), registered(2))
    apply(cluster, observed(1, 2))
    restarting = Liveness(2, Timestamp(NOW + 3_000), holds_lock=False)
    nodes = {**observed(1).nodes, 2: restarting}
    assert not decided(cluster, TOPICS, Observed(NOW, nodes))


def test_partitions_have_no_leader_when_all_nodes_are_gone_and_epochs_go_on() -> None:
    cluster = cluster_of(registered(1))
    apply(cluster, observed(1))
    apply(cluster, observed())
    assert cluster.leader(TopicIdPartition(TOPIC, 0)) == Leader(-1, 0)
    assert cluster.controller_id == -1
    cluster.replay(registered(2))
    apply(cluster, observed(2))
    assert cluster.leader(TopicIdPartition(TOPIC, 0)) == Leader(2, 1)


def test_partitions_move_to_a_new_node_when_all_is_quiet() -> None:
    cluster = cluster_of(registered(1))
    apply(cluster, observed(1))
    cluster.replay(registered(2, at=NOW - REBALANCE_DELAY_MS + 1))
    assert not decided(cluster, TOPICS, observed(1, 2))
    cluster.replay(registered(2, at=NOW - REBALANCE_DELAY_MS))
    moves = apply(cluster, observed(1, 2))
    assert len(moves) == len(cluster.moves)
    assert Counter(partition.topic_id for partition in cluster.moves) == {GROUPS: 5, TOPIC: 2}
    assert not apply(cluster, observed(1, 2))


@pytest.mark.parametrize(
    ("is_draining", "at_once", "done"),
    [(False, MAX_MOVES, 1), (True, MAX_DRAIN_MOVES, MAX_DRAIN_MOVES // 2)],
)
def test_few_partitions_move_at_a_time(is_draining: bool, at_once: int, done: int) -> None:
    cluster = cluster_of(registered(1), registered(2, is_draining=is_draining))
    topics = {TOPIC: TopicSize(TopicKind.RECORDS, 2 * at_once + 4)}
    for partition in range(2 * at_once + 4):
        cluster.replay(LeaderChanged(TopicIdPartition(TOPIC, partition), Leader(2, 0)))
    for record in decided(cluster, topics, observed(1, 2)):
        cluster.replay(record)
    assert len(cluster.moves) == at_once
    for partition in tuple(cluster.moves)[:done]:
        assert not decided(cluster, topics, observed(1, 2))
        cluster.replay(LeaderChanged(partition, Leader(1, 1)))
    assert len(decided(cluster, topics, observed(1, 2))) == done


def test_a_move_to_a_node_that_is_gone_is_called_off() -> None:
    cluster = cluster_of(registered(1), registered(2), registered(3))
    apply(cluster, observed(1, 2, 3))
    partition = next(cluster.led_by(1))
    cluster.replay(ReassignmentPlanned(partition, 3))
    assert ReassignmentPlanned(partition, None) in apply(cluster, observed(1, 2))
    assert partition not in cluster.moves


def test_draining_does_not_leave_partitions_without_a_leader() -> None:
    cluster = cluster_of(registered(1, is_draining=True))
    apply(cluster, observed(1))
    assert shares(cluster) == [10]
    assert not apply(cluster, observed(1))


@given(st.data())
def test_moves_end_and_are_the_fewest(data: st.DataObject) -> None:
    nodes = range(data.draw(st.integers(1, 5)))
    cluster = cluster_of(*map(registered, nodes))
    partitions = [
        TopicIdPartition(id, n) for id, (_, count) in TOPICS.items() for n in range(count)
    ]
    for partition in partitions:
        cluster.replay(LeaderChanged(partition, Leader(data.draw(st.sampled_from(nodes)), 0)))
    before = Counter(
        (partition.topic_id, leader.node) for partition, leader in cluster.leaders.items()
    )
    moved = 0
    while apply(cluster, observed(*nodes)):
        for partition, to in tuple(cluster.moves.items()):
            moved += 1
            cluster.replay(LeaderChanged(partition, Leader(to, 1)))
        assert moved <= len(partitions)
    for topic in TOPICS:
        share = -(-TOPICS[topic].partitions // len(nodes))
        moved -= sum(max(before[topic, node] - share, 0) for node in nodes)
        assert max(shares(cluster, topic)) <= share
    assert moved <= len(TOPICS) * (len(nodes) - 1)


def test_very_many_partitions_get_a_leader_in_parts() -> None:
    cluster = cluster_of(registered(1), registered(2))
    topics = {TOPIC: TopicSize(TopicKind.RECORDS, 2 * LEADER_BATCH + 10)}
    counts = []
    while records := decided(cluster, topics, observed(1, 2)):
        counts.append(len(records))
        for record in records:
            cluster.replay(record)
    assert counts == [LEADER_BATCH, LEADER_BATCH, 10]
    led = Counter(leader.node for leader in cluster.leaders.values())
    assert set(led.values()) == {LEADER_BATCH + 5}


@pytest.mark.parametrize("topics", [1, 2_000])
def test_other_tasks_run_while_very_many_partitions_are_decided(topics: int) -> None:
    cluster = cluster_of(registered(1), registered(2))
    spread = {UUID(int=n): TopicSize(TopicKind.RECORDS, 2_000 // topics) for n in range(topics)}
    while records := decided(cluster, spread, observed(1, 2)):
        for record in records:
            cluster.replay(record)
    cluster.replay(registered(3))
    nodes = situation(cluster, observed(1, 2, 3), REBALANCE_DELAY_MS)
    between = [0]

    def count(_: FrameType, event: str, __: object) -> None:
        between[-1] += event in ("call", "c_call")

    steps = decide(cluster, spread, nodes)
    sys.setprofile(count)
    try:
        for _ in steps:
            between.append(0)  # noqa: PERF401 - counted meanwhile
    finally:
        sys.setprofile(None)
    assert len(between) > 2_000
    assert max(between) < 500


def test_the_next_moves_are_found_in_few_steps() -> None:
    nodes = range(20)
    cluster = cluster_of(*map(registered, nodes))
    topics = {UUID(int=number): TopicSize(TopicKind.RECORDS, 20) for number in range(1, 101)}
    for topic_id in topics:
        for node in nodes:
            cluster.replay(LeaderChanged(TopicIdPartition(topic_id, node), Leader(node, 0)))
    cluster.replay(registered(20))
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        moves = decided(cluster, topics, observed(*nodes, 20))
    finally:
        sys.setprofile(None)
    assert len(moves) == MAX_MOVES
    assert calls < 20 * len(cluster.leaders)


def test_leaders_and_moves_of_a_deleted_topic_are_removed() -> None:
    cluster = cluster_of(registered(1), registered(2))
    apply(cluster, observed(1, 2))
    gone = [TopicIdPartition(UUID(int=9), partition) for partition in range(3)]
    for partition in gone:
        cluster.replay(LeaderChanged(partition, Leader(1, 4)))
    cluster.replay(ReassignmentPlanned(gone[0], 2))
    apply(cluster, observed(1, 2))
    assert {partition.topic_id for partition in (*cluster.leaders, *cluster.moves)} == set(TOPICS)
    assert not apply(cluster, observed(1, 2))
