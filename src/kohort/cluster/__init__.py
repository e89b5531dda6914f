"""Which node of a cluster leads which partition: a fold over records, and the decisions on it.

`records` has what is logged in `__cluster_metadata`, `Cluster` is its fold, and `decide` says what
to log next: nodes that are gone are fenced, partitions get leaders, and some are to move. All of it
is pure. Every node may decide: a record is appended only at the end of the log that its author has
read, so who is behind reads on and decides anew. There is no controller to elect. `SharedStorage`
is what the nodes need of the storage for that.
"""

from kohort.cluster.decisions import (
    MOVES_AT_ONCE,
    SETTLED_AFTER_MS,
    Situation,
    decide,
    situation,
)
from kohort.cluster.observed import Liveness, Observed
from kohort.cluster.placement import worker_of
from kohort.cluster.records import (
    NO_LEADER,
    ClusterRecord,
    Endpoint,
    Leader,
    MovePlanned,
    NodeFenced,
    NodeRegistered,
    PartitionLed,
    Place,
)
from kohort.cluster.state import Cluster, Purpose, Spread
from kohort.cluster.storage import (
    LEASE_MS,
    FencedError,
    HistoryLostError,
    Logged,
    NodeTakenError,
    SharedStorage,
    UnknownOutcomeError,
)

__all__ = [
    "LEASE_MS",
    "MOVES_AT_ONCE",
    "NO_LEADER",
    "SETTLED_AFTER_MS",
    "Cluster",
    "ClusterRecord",
    "Endpoint",
    "FencedError",
    "HistoryLostError",
    "Leader",
    "Liveness",
    "Logged",
    "MovePlanned",
    "NodeFenced",
    "NodeRegistered",
    "NodeTakenError",
    "Observed",
    "PartitionLed",
    "Place",
    "Purpose",
    "SharedStorage",
    "Situation",
    "Spread",
    "UnknownOutcomeError",
    "decide",
    "situation",
    "worker_of",
]
