"""Decisions on nodes and leaders, as the records to append next."""

from collections.abc import Collection, Generator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kohort.cluster.load import Load
from kohort.cluster.observed import Observed
from kohort.cluster.records import (
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRecord,
    ReassignmentPlanned,
)
from kohort.cluster.state import Cluster, TopicSize, partitions_of
from kohort.types import TopicIdPartition

MAX_MOVES: Final = 8
"""Moves for balance that are planned at a time; other partitions are served meanwhile."""
MAX_DRAIN_MOVES: Final = 64
"""Moves from draining nodes that are planned at a time, so that the next leaders read ahead.

More are planned when half of them are done.
"""
REBALANCE_DELAY_MS: Final = 30_000
"""Time from a node's registration until partitions move: often several nodes join in a row."""
LEADER_BATCH: Final = 1_000
"""Partitions that get a leader in one decision, which takes 10 ms for all of them."""
CLEANUP_BATCH: Final = 200
"""Partitions of deleted topics whose records are cleaned up in one decision."""


class Situation(NamedTuple):
    """State of the registered nodes that a decision depends on."""

    gone: frozenset[int]
    is_settled: bool
    """Whether all other nodes are registered for long enough to be balanced."""


def situation(cluster: Cluster, observed: Observed, rebalance_delay_ms: int) -> Situation:
    """The situation of the observed nodes."""
    nodes = cluster.nodes.values()
    gone_ids = frozenset(node.id for node in nodes if observed.is_gone(node.id, node.session))
    ages = (observed.now - node.registered_at for node in nodes if node.id not in gone_ids)
    return Situation(gone_ids, all(age >= rebalance_delay_ms for age in ages))


def decide(
    cluster: Cluster, topics: Mapping[UUID, TopicSize], nodes: Situation
) -> Generator[None, None, tuple[NodeRecord, ...]]:
    """Records of one batch to append now; empty if nothing has to change.

    Visits every partition, in steps. Records of deleted topics are cleaned up. Nodes that are gone
    are fenced. Partitions without a leader get one, each on the node with the fewest. Moves are
    planned from draining nodes, and for balance once the nodes are settled. A leader that is not
    gone keeps its partitions until it hands them over itself.
    """
    live = {node.id: node for node in cluster.nodes.values() if node.id not in nodes.gone}
    fenced = tuple(NodeFenced(node_id) for node_id in cluster.nodes if node_id not in live)
    targets = sorted(node.id for node in live.values() if not node.is_draining) or sorted(live)
    forgotten = yield from _cleanup_records(cluster, topics)
    done = (*forgotten, *fenced)
    if not targets:
        return done
    load = Load(targets, topics)
    orphans = []
    for partition in partitions_of(topics):
        yield
        leader = cluster.leaders.get(partition, Leader())
        if leader.node in live:
            load.add(partition, leader.node)
        else:
            orphans.append((partition, leader.epoch + 1))
    led = []
    for partition, epoch in orphans[:LEADER_BATCH]:
        led.append(LeaderChanged(partition, Leader(load.assign(partition), epoch)))
        yield
    if len(led) < len(orphans):
        return (*done, *led)
    planned = {
        partition: to for partition, to in cluster.moves.items() if partition.topic_id in topics
    }
    for record in led:
        planned.pop(record.partition, None)
    pointless = [partition for partition, to in planned.items() if to not in targets]
    for partition in pointless:
        del planned[partition]
    called_off = tuple(ReassignmentPlanned(partition, None) for partition in pointless)
    for partition, to in planned.items():
        load.move(partition, to)
    leaving = live.keys() - set(targets)
    moves = yield from _moves(load, planned, leaving, evens_out=nodes.is_settled)
    return (*done, *led, *called_off, *moves)


def _cleanup_records(
    cluster: Cluster, topics: Mapping[UUID, TopicSize]
) -> Generator[None, None, list[NodeRecord]]:
    """Records that remove leaders and moves of deleted topics."""
    records: list[NodeRecord] = []
    for partition in (*cluster.leaders, *cluster.moves):
        if partition.topic_id not in topics:
            records += (LeaderChanged(partition, Leader()), ReassignmentPlanned(partition, None))
            if len(records) >= 2 * CLEANUP_BATCH:
                break
        yield
    return records


def _moves(
    load: Load,
    planned: Mapping[TopicIdPartition, int],
    draining: Collection[int],
    *,
    evens_out: bool,
) -> Generator[None, None, list[ReassignmentPlanned]]:
    """New moves within the limits: from draining nodes first, then for balance."""
    leaving = load.of(draining)
    moves = []
    if len(planned) <= MAX_DRAIN_MOVES // 2:
        for partition in leaving[: MAX_DRAIN_MOVES - len(planned)]:
            moves.append(ReassignmentPlanned(partition, load.reassign(partition)))
            yield
    free = max(MAX_MOVES - len(planned), 0)
    fixed = set(planned)
    for _ in range(free if evens_out and not leaving else 0):
        move = yield from load.best_move(fixed)
        if move is None:
            break
        load.move(*move)
        fixed.add(move[0])
        moves.append(ReassignmentPlanned(*move))
    return moves
