"""The tables of the history: their columns and types, as Arrow schemas.

Every row has the log position that it comes from (`log_partition` and an offset), and rows are
never changed once they are written. Columns of one row that only later records decide (`ended`,
`to`) are why the rows of generations, rebalances, members, assignments and minutes are written when
these end; those that have not ended are in the fold's state.

Times are record times, in microseconds as Spark stores them. Kafka's are in ms.
"""

from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar.schema import BATCH_FIELDS

TIME: Final = pa.timestamp("us", tz="UTC")
LATEST_MS: Final = 253_402_300_799_999
"""The latest time that rows have: the end of 9999, as of Python's and Spark's times.

A later time, or one before 1970, is unknown: null.
"""
STRINGS: Final = pa.list_(pa.string())
PARTITIONS: Final = pa.list_(
    pa.struct([
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("epoch", pa.int32()),
    ])
)  # fmt: skip
TASKS: Final = pa.list_(
    pa.struct([
        pa.field("kind", pa.string()),
        pa.field("subtopology", pa.string()),
        pa.field("partitions", pa.list_(pa.int32())),
    ])
)  # fmt: skip
TOPIC_PARTITIONS: Final = pa.list_(
    pa.struct([pa.field("topic", pa.string()), pa.field("partition", pa.int32())])
)
SUBSCRIPTION: Final = pa.struct([
    pa.field("version", pa.int16()),
    pa.field("topics", STRINGS),
    pa.field("owned", TOPIC_PARTITIONS),
    pa.field("generation", pa.int32()),
    pa.field("rack", pa.string()),
    pa.field("user_data", pa.binary()),
])  # fmt: skip
ASSIGNMENT: Final = pa.struct([
    pa.field("version", pa.int16()),
    pa.field("partitions", TOPIC_PARTITIONS),
    pa.field("user_data", pa.binary()),
])  # fmt: skip
PROTOCOLS: Final = pa.list_(
    pa.struct([pa.field("name", pa.string()), pa.field("subscription", SUBSCRIPTION)])
)

RECORDS: Final = pa.schema([
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIME),
    *BATCH_FIELDS,
])  # fmt: skip
"""What is folded: records of one log partition, in offset order.

Spark's source has the columns of `BATCH_FIELDS` with `includeBatchFields`. Archives without them
have nulls there.
"""

POSITION: Final = [
    pa.field("log_partition", pa.int32()),
    pa.field("log_offset", pa.int64()),
    pa.field("time", TIME),
    pa.field("log_leader_epoch", pa.int32()),
    pa.field("batch_offset", pa.int64()),
    pa.field("producer_id", pa.int64()),
    pa.field("producer_epoch", pa.int16()),
    pa.field("txn", pa.string()),  # committed | aborted | open | assumed; null: no transaction
    pa.field("in_force", pa.int64()),  # log offset from which on it counts; null: aborted, open
    pa.field("type", pa.string()),
    pa.field("version", pa.int16()),  # of the value; null: tombstone
    pa.field("group", pa.string()),
    pa.field("life", pa.int64()),  # log offset of the first record of this life of the group
    pa.field("error", pa.string()),
    pa.field("raw_key", pa.binary()),
    pa.field("raw_value", pa.binary()),
]  # fmt: skip
"""Columns of `offsets`, `commits` and `groups`."""

_OFFSET: Final = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("topic_id", pa.string()),
    pa.field("committed", pa.int64()),  # null: tombstone
    pa.field("leader_epoch", pa.int32()),
    pa.field("metadata", pa.string()),
    pa.field("commit_time", TIME),
    pa.field("expire_time", TIME),
]  # fmt: skip

OFFSETS: Final = pa.schema([*POSITION, *_OFFSET])
"""Every record of a committed offset; `type` is "offset"."""

COMMITS: Final = pa.schema([
    *POSITION,
    *_OFFSET,
    pa.field("in_force_time", TIME),  # record time at `in_force`
    pa.field("previous", pa.int64()),
    pa.field("previous_time", TIME),
    pa.field("advance", pa.int64()),  # the nearest number that 64 bits hold
    pa.field("kind", pa.string()),  # first | advance | repeat | rewind | superseded | tombstone
    pa.field("cause", pa.string()),  # of a tombstone, §: expired | group deleted | topic deleted |
    pa.field("origin", pa.string()),  # member | outside | transaction            offsets deleted
    pa.field("member_id", pa.string()),
    pa.field("client_id", pa.string()),
    pa.field("client_host", pa.string()),
    pa.field("generation", pa.int32()),
    pa.field("certainty", pa.string()),  # exact | unknown: of what is said about the commit before
])  # fmt: skip
"""The stored rows of `offsets` and `commits`: all offset records. Those that never counted have
neither `in_force` nor `kind`."""

GROUPS: Final = pa.schema([
    *POSITION,
    pa.field("classic", pa.struct([
        pa.field("protocol_type", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("protocol", pa.string()),
        pa.field("leader", pa.string()),
        pa.field("state_time", TIME),
        pa.field("members", pa.list_(pa.struct([
            pa.field("member_id", pa.string()),
            pa.field("instance_id", pa.string()),
            pa.field("client_id", pa.string()),
            pa.field("client_host", pa.string()),
            pa.field("rebalance_timeout_ms", pa.int32()),
            pa.field("session_timeout_ms", pa.int32()),
            pa.field("subscription", SUBSCRIPTION),
            pa.field("assignment", ASSIGNMENT),
        ]))),
    ])),
    pa.field("epoch", pa.struct([
        pa.field("epoch", pa.int32()),
        pa.field("metadata_hash", pa.int64()),
        pa.field("topology_epoch", pa.int32()),
    ])),
    pa.field("member", pa.struct([
        pa.field("member_id", pa.string()),
        pa.field("instance_id", pa.string()),
        pa.field("rack", pa.string()),
        pa.field("client_id", pa.string()),
        pa.field("client_host", pa.string()),
        pa.field("topics", STRINGS),
        pa.field("regex", pa.string()),
        pa.field("rebalance_timeout_ms", pa.int32()),
        pa.field("assignor", pa.string()),
        pa.field("process_id", pa.string()),
        pa.field("endpoint", pa.string()),
        pa.field("session_timeout_ms", pa.int32()),
        pa.field("protocols", PROTOCOLS),
    ])),
    pa.field("target", pa.struct([
        pa.field("member_id", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("target_time", TIME),
        pa.field("partitions", PARTITIONS),
        pa.field("tasks", TASKS),
    ])),
    pa.field("current", pa.struct([
        pa.field("member_id", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("previous_epoch", pa.int32()),
        pa.field("state", pa.string()),
        pa.field("assigned", PARTITIONS),
        pa.field("pending", PARTITIONS),
        pa.field("tasks", TASKS),
    ])),
    pa.field("other", pa.struct([
        pa.field("kind", pa.string()),
        pa.field("json", pa.string()),
    ])),
])  # fmt: skip
"""Every other record. `type` is the struct that is set, or "marker" for control records."""

_GENERATION_KEY: Final = [
    pa.field("log_partition", pa.int32()),
    pa.field("group", pa.string()),
    pa.field("life", pa.int64()),
    pa.field("type", pa.string()),  # classic | consumer | share | streams
    pa.field("generation", pa.int32()),  # or group epoch
    pa.field("log_offset", pa.int64()),  # of its first record
    pa.field("time", TIME),
]  # fmt: skip

GENERATIONS: Final = pa.schema([
    *_GENERATION_KEY,
    pa.field("state_time", TIME),
    pa.field("written", pa.list_(TIME)),
    pa.field("protocol_type", pa.string()),
    pa.field("protocol", pa.string()),
    pa.field("leader", pa.string()),
    pa.field("members", STRINGS),
    pa.field("skipped", pa.int32()),  # numbers before it that were never logged
    pa.field("ended", TIME),
    pa.field("ended_offset", pa.int64()),
    pa.field("ended_by", pa.string()),  # next | empty | deleted | expired | converted | open
    pa.field("complete", pa.bool_()),
])  # fmt: skip
"""Every generation or epoch that was logged, those without members too.

`written` are the times of its records: of a classic group more than one if static members were
replaced. `skipped` is null if the one before is not known. A conversion repeats the number of the
generation or epoch before it: `type` tells them apart.
"""

REBALANCES: Final = pa.schema([
    *_GENERATION_KEY,
    pa.field("rounds", pa.int32()),
    pa.field("joined", STRINGS),
    pa.field("left", STRINGS),
    pa.field("vanished", STRINGS),
    pa.field("out_of_poll_loop", STRINGS),
    pa.field("replaced", STRINGS),
    pa.field("unknown", STRINGS),
    pa.field("moved", pa.int32()),
    pa.field("kept", pa.int32()),
    pa.field("added", pa.int32()),
    pa.field("unassigned", pa.int32()),
    pa.field("sync_ms", pa.int64()),
    pa.field("converge_ms", pa.int64()),
    pa.field("standstill_ms", pa.int64()),
    pa.field("ended_offset", pa.int64()),
    pa.field("complete", pa.bool_()),
])  # fmt: skip
"""What led to a generation, by the number of the first one if it took several rounds.

Members and partitions are null unless it is complete; partitions also of share and streams groups.
"""

MEMBERS: Final = pa.schema([
    pa.field("log_partition", pa.int32()),
    pa.field("group", pa.string()),
    pa.field("life", pa.int64()),
    pa.field("member_id", pa.string()),
    pa.field("client_id", pa.string()),
    pa.field("client_host", pa.string()),
    pa.field("instance_id", pa.string()),
    pa.field("rack", pa.string()),
    pa.field("rebalance_timeout_ms", pa.int32()),
    pa.field("session_timeout_ms", pa.int32()),
    pa.field("from", TIME),
    pa.field("from_offset", pa.int64()),
    pa.field("to", TIME),
    pa.field("to_offset", pa.int64()),
    pa.field("ended_by", pa.string()),
    # left | vanished | out of the poll loop | replaced | unknown | group ended; null: still there
    pa.field("replaces", pa.string()),
    pa.field("topics", STRINGS),  # subscribed last, those that a regular expression matched too
    pa.field("assignors", STRINGS),  # named last, if the record has them
    pa.field("complete", pa.bool_()),
])  # fmt: skip

ASSIGNMENTS: Final = pa.schema([
    pa.field("log_partition", pa.int32()),
    pa.field("group", pa.string()),
    pa.field("life", pa.int64()),
    pa.field("topic", pa.string()),  # or the topic id, if no record names it
    pa.field("partition", pa.int32()),
    pa.field("from", TIME),
    pa.field("from_offset", pa.int64()),
    pa.field("member_id", pa.string()),
    pa.field("client_id", pa.string()),
    pa.field("client_host", pa.string()),
    pa.field("to", TIME),
    pa.field("to_offset", pa.int64()),
    pa.field("generation", pa.int32()),
    pa.field("pending_from", TIME),
])  # fmt: skip

MINUTES: Final = pa.schema([
    pa.field("log_partition", pa.int32()),
    pa.field("group", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("minute", TIME),
    pa.field("log_offset", pa.int64()),  # of its last commit
    pa.field("commits", pa.int32()),
    pa.field("last", pa.int64()),
    pa.field("sum_advance", pa.int64()),
    pa.field("least_advance", pa.int64()),
    pa.field("longest_gap_ms", pa.int64()),
])  # fmt: skip
"""Commits of a partition in one minute of record time."""

GAP: Final = pa.struct([
    # Offset of the first record behind its first hole; of damage, the first one that is lost.
    pa.field("hole", pa.int64()),
    pa.field("complete_from", pa.int64()),  # null: not yet; of damage always
    pa.field("is_later", pa.bool_()),  # records before it were read before the others were removed
    pa.field("is_data_loss", pa.bool_()),  # by retention or damage, not by compaction alone
])  # fmt: skip
COVERAGE: Final = pa.schema([
    pa.field("log_partition", pa.int32()),
    pa.field("first", pa.int64()),
    pa.field("end", pa.int64()),  # next offset
    pa.field("bytes", pa.int64()),  # of keys and values
    pa.field("batches", pa.int64()),
    pa.field("records", pa.int64()),
    pa.field("control_records", pa.int64()),
    pa.field("first_hole", pa.int64()),  # offset of the first record behind one; null: none
    pa.field("complete_from", pa.int64()),  # up to the end; null: not yet
    pa.field("complete_from_time", TIME),
    pa.field("gaps", pa.list_(GAP)),
    pa.field("holes", pa.int64()),
    pa.field("open_transactions", pa.int32()),
    pa.field("errors", pa.int64()),
    pa.field("first_time", TIME),
    pa.field("last_time", TIME),  # running maximum
])  # fmt: skip
"""One row per log partition: what the tables know. Outside of `gaps`, everything is exact. In
a gap, from its hole to where the log is complete again, records were removed before their read."""

COMMITTED: Final = pa.schema([
    pa.field("log_partition", pa.int32()),
    pa.field("group", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("committed", pa.int64()),
    pa.field("in_force_time", TIME),
])  # fmt: skip
"""The commit of each partition that is in force at one moment. Not a stored table."""

SAMPLES: Final = pa.schema([
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("time", TIME),
    pa.field("start", pa.int64()),  # log start offset; null: not known, as in a grid
    pa.field("end", pa.int64()),  # high watermark: the next offset to be read
    pa.field("stable", pa.int64()),  # last stable offset; null: not known
    pa.field("topic_id", pa.string()),
    pa.field("method", pa.string()),  # sampled | grid
])  # fmt: skip
"""Offsets of a partition that groups commit, at a time of the broker's clock.

A sampled row was asked for at its time. A row of a grid was asked for later, by the times of the
records that were still there."""

LAG: Final = pa.schema([
    pa.field("group", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("time", TIME),  # of a sample
    pa.field("committed", pa.int64()),  # null: no commit at that time
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
    pa.field("lag", pa.int64()),  # records; null: no commit
    pa.field("lag_ms", pa.int64()),  # since the oldest unread record was appended; null: not known
    pa.field("lost", pa.int64()),  # records that retention removed before they were committed
    pa.field("method", pa.string()),  # of the sample: sampled | grid
    pa.field("confidence_ms", pa.int64()),  # lag_ms may be off by so much
    pa.field("velocity", pa.float64()),  # records/s; positive: the lag grows
    pa.field("trend", pa.string()),  # growing | falling | steady
    pa.field("catch_up_ms", pa.int64()),  # until the lag is 0, if it falls
    pa.field("loss_ms", pa.int64()),  # until retention passes the commit; 0: it did
    pa.field("case", pa.string()),  # ok | no commit | retention passed | stale end
    pa.field("commit_time", TIME),  # of the commit; with no commit: of one of a former topic
    pa.field("commit_gap_ms", pa.int64()),  # median of the gaps of the last commits
    pa.field("repeats", pa.int32()),  # last commits that repeat an offset
    pa.field("grown", pa.int64()),  # records produced since the last commit
    pa.field("grown_repeated", pa.int64()),  # since the first commit of this offset
    pa.field("rewound", pa.int64()),  # records by which it is below one of the last commits
])  # fmt: skip
"""The lag of a partition of a group at the time of a sample, as `kohort.lag` computes it.

Times without lag and without a change have a row each ten minutes only. A partition has none before
its first commit, and one, without a lag, from its tombstone on. Last commits are at most ten, each
a second or more after the one before."""

STATUS: Final = pa.schema([
    *list(LAG)[:3],
    pa.field("status", pa.string()),
    # stopped | empty | rewind | stall | warn | loss | unknown | ok
    *list(LAG)[3:],
])  # fmt: skip
"""The status of a partition of a group at a moment, and the lag by which it was judged."""

FINDINGS: Final = pa.schema([
    pa.field("group", pa.string()),
    pa.field("id", pa.string()),  # of the rule
    pa.field("subject", pa.string()),  # a client, topic or partition; "": the group
    pa.field("since", TIME),
    pa.field("until", TIME),
    pa.field("found", TIME),  # end of the log then; the row that was found last counts
    pa.field("severity", pa.string()),  # info | warning | error
    pa.field("text", pa.string()),
    pa.field("evidence", pa.list_(pa.struct([
        pa.field("log_partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
    ]))),
])  # fmt: skip
"""What `kohort.findings` found in the groups that a build or a micro-batch changed."""

TABLES: Final = {
    "commits": COMMITS,
    "groups": GROUPS,
    "generations": GENERATIONS,
    "rebalances": REBALANCES,
    "members": MEMBERS,
    "assignments": ASSIGNMENTS,
    "minutes": MINUTES,
}
"""The tables that the fold writes. `offsets` is `commits` by fewer columns; `coverage` is from the
state."""

STORED_TABLES: Final = {**TABLES, "samples": SAMPLES, "findings": FINDINGS}
"""The tables that have files in a history's directory."""
