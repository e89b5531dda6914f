"""Which node of a cluster leads which partition: a fold over records, and the decisions on it.

`records` has what is logged in `__cluster_metadata`, `Cluster` is its fold, and `decide` says what
to log next: nodes that are gone are fenced, partitions get leaders, and some are to move. All of it
is pure. Every node may decide: a record is appended only at the end of the log that its author has
read, so who is behind reads on and decides anew. There is no controller to elect. `SharedStorage`
is what the nodes need of the storage for that.
"""

from kohort.cluster.decisions import (
    MOVES_AT_ONCE,
    REBALANCE_DELAY_MS,
    Situation,
    decide,
    situation,
)
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
    Place,
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
    "MOVES_AT_ONCE",
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
    "Place",
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
