"""What is to be logged of nodes and leaders next."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from kohort.cluster.load import Load
from kohort.cluster.observed import Observed
from kohort.cluster.records import (
    ClusterRecord,
    Leader,
    MovePlanned,
    NodeFenced,
    PartitionLed,
    Place,
)
from kohort.cluster.state import Cluster, Spread, places

MOVES_AT_ONCE: Final = 8
"""Partitions that are handed over at a time; others of their nodes are served as ever."""
DRAINED_AT_ONCE: Final = 64
"""Moves away from draining nodes that are planned at a time, so that their targets read ahead.

More are planned when half of them are done.
"""
SETTLED_AFTER_MS: Final = 30_000
"""Time after a node came until partitions move to it: often several come one after the other."""
LED_AT_ONCE: Final = 1_000
"""Partitions that get a leader at a time: it takes 10 ms to find one for each."""
FORGOTTEN_AT_ONCE: Final = 200
"""Partitions of deleted topics whose leaders are forgotten at a time."""


def decide(
    cluster: Cluster,
    topics: Mapping[UUID, Spread],
    observed: Observed,
    settled_after_ms: int = SETTLED_AFTER_MS,
) -> tuple[ClusterRecord, ...]:
    """What changes now, as records of one batch; nothing if all is as it should be.

    Leaders of deleted topics are forgotten. Nodes that are gone are fenced. Partitions without a
    leader get one, each on the node with the fewest. Of those that lie unevenly some are planned to
    move, once no node came for `settled_after_ms`, and all of nodes that drain. A leader that is
    not gone keeps its partitions until it hands them over itself.
    """
    live = {
        each.id: each
        for each in cluster.nodes.values()
        if not observed.is_gone(each.id, each.session)
    }
    fenced = tuple(NodeFenced(each) for each in cluster.nodes if each not in live)
    targets = sorted(each.id for each in live.values() if not each.is_draining) or sorted(live)
    done = (*_forgotten(cluster, topics), *fenced)
    if not targets:
        return done
    load = Load(targets, topics)
    orphans = []
    for place in places(topics):
        leader = cluster.leaders.get(place, Leader())
        if leader.node in live:
            load.add(place, leader.node)
        else:
            orphans.append((place, leader.epoch + 1))
    led = tuple(
        PartitionLed(place, Leader(load.assign(place), epoch))
        for place, epoch in orphans[:LED_AT_ONCE]
    )
    if len(led) < len(orphans):
        return (*done, *led)
    planned = {place: to for place, to in cluster.moves.items() if place.topic_id in topics}
    for record in led:
        planned.pop(record.place, None)
    pointless = [place for place, to in planned.items() if to not in targets]
    for place in pointless:
        del planned[place]
    called_off = tuple(MovePlanned(place, None) for place in pointless)
    for place, to in planned.items():
        load.move(place, to)
    settled = all(observed.now - each.registered_at >= settled_after_ms for each in live.values())
    moves = _moves(load, planned, live.keys() - set(targets), evens_out=settled)
    return (*done, *led, *called_off, *moves)


def _forgotten(cluster: Cluster, topics: Mapping[UUID, Spread]) -> Iterator[ClusterRecord]:
    """Records that end what is known of deleted topics."""
    gone = (place for place in (*cluster.leaders, *cluster.moves) if place.topic_id not in topics)
    for place in islice(gone, FORGOTTEN_AT_ONCE):
        yield PartitionLed(place, Leader())
        yield MovePlanned(place, None)


def _moves(
    load: Load, planned: Mapping[Place, int], draining: Collection[int], *, evens_out: bool
) -> Iterator[MovePlanned]:
    """Further moves, as many as may be under way: from draining nodes first."""
    leaving = load.of(draining)
    if len(planned) <= DRAINED_AT_ONCE // 2:
        for place in leaving[: DRAINED_AT_ONCE - len(planned)]:
            yield MovePlanned(place, load.reassign(place))
    free = max(MOVES_AT_ONCE - len(planned), 0)
    fixed = set(planned)
    for _ in range(free if evens_out and not leaving else 0):
        move = load.best_move(fixed)
        if move is None:
            return
        load.move(*move)
        fixed.add(move[0])
        yield MovePlanned(*move)
