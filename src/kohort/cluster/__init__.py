"""Leaders of partitions in a cluster: records, the state that they fold to, and decisions.

`records` are logged in `__cluster_metadata`, `Cluster` is their fold, and `decide` returns the
records to append next: nodes that are gone are fenced, partitions get leaders, moves are planned.
All of it is pure. Every node may decide: a batch is appended only at the log end that its author
has read. A node that is behind reads on and decides again, so no controller is elected.
`SharedStorage` is the storage interface that nodes need for that.
"""

from kohort.cluster.decisions import MAX_MOVES, REBALANCE_DELAY_MS, Situation, decide, situation
from kohort.cluster.observed import Liveness, Observed
from kohort.cluster.placement import worker_of
from kohort.cluster.records import (
    NO_LEADER,
    Endpoint,
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRecord,
    NodeRegistered,
    ReassignmentPlanned,
)
from kohort.cluster.state import Cluster, TopicKind, TopicSize
from kohort.cluster.storage import (
    LEASE_MS,
    DuplicateNodeIdError,
    FencedError,
    HistoryLostError,
    Logged,
    SharedStorage,
    UnknownOutcomeError,
)

__all__ = [
    "LEASE_MS",
    "MAX_MOVES",
    "NO_LEADER",
    "REBALANCE_DELAY_MS",
    "Cluster",
    "DuplicateNodeIdError",
    "Endpoint",
    "FencedError",
    "HistoryLostError",
    "Leader",
    "LeaderChanged",
    "Liveness",
    "Logged",
    "NodeFenced",
    "NodeRecord",
    "NodeRegistered",
    "Observed",
    "ReassignmentPlanned",
    "SharedStorage",
    "Situation",
    "TopicKind",
    "TopicSize",
    "UnknownOutcomeError",
    "decide",
    "situation",
    "worker_of",
]
