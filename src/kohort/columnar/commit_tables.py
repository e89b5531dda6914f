"""The tables of the kernels that fold commits: what their lines and columns are.

Records are columns of a table, whose first lines `commit_kernels` writes. A slot is a row of a
table: one partition of one group.
"""

from typing import Final

from kohort.columnar.commit_kernels import DECODED

NONE: Final = -(2**63)
"""No time, or no number."""

# More lines of the table of records. From the batch:
LOG_OFFSET: Final = DECODED
TIME: Final = DECODED + 1
LOG_LEADER_EPOCH: Final = DECODED + 2
BATCH_OFFSET: Final = DECODED + 3
PRODUCER_ID: Final = DECODED + 4
PRODUCER_EPOCH: Final = DECODED + 5
IS_TRANSACTIONAL: Final = DECODED + 6
MARKER: Final = DECODED + 7
# Found by Python and `find_slots`:
PRODUCER: Final = DECODED + 8
"""Index in the lists of open transactions; -1: none."""
SLOT: Final = DECODED + 9
SEEN: Final = DECODED + 10
"""Log offset of the key's last record before; -1: none."""
TOPIC_ID: Final = DECODED + 11
"""Index; -1: none."""
# As of the record, by `fold_commits`:
OWNER: Final = DECODED + 12
ORIGIN: Final = DECODED + 13
LIFE: Final = DECODED + 14
IS_PENDING: Final = DECODED + 15
RECORD_LINES: Final = DECODED + 16

COMMIT_MARKER: Final = 1
ABORT_MARKER: Final = 2
OTHER_MARKER: Final = 3
UNRESOLVED: Final = -2

# Columns of the table of slots.
HASH: Final = 0
NEXT: Final = 1
"""Slot of the same list; of a free slot the next free one."""
IS_USED: Final = 2
ARENA_AT: Final = 3
ARENA_SIZE: Final = 4
GROUP_BYTES: Final = 5
GROUP: Final = 6
TOPIC: Final = 7
NUMBER_OF: Final = 8
"""Number of the partition."""
LAST_SEEN: Final = 9
"""Log offset of the last record of the key; -1: none."""
OWNER_OF: Final = 10
PENDING: Final = 11
"""Records of open transactions."""
RECORD: Final = 12
"""Log offset of the record that counts; of a tombstone too, while transactions are open."""
HAS_VALUE: Final = 13
VALUE: Final = 14
VALUE_TIME: Final = 15
VALUE_COMMIT_TIME: Final = 16
VALUE_EXPIRE_TIME: Final = 17
BEFORE_ASSIGNED: Final = 18
SINCE_ASSIGNED: Final = 19
SLOT_HAS_ID: Final = 20
SLOT_ID_HIGH: Final = 21
SLOT_ID_LOW: Final = 22
SLOT_TOPIC_ID: Final = 23
MINUTE: Final = 24
MINUTE_COMMITS: Final = 25
MINUTE_SUM: Final = 26
MINUTE_LEAST: Final = 27
"""Least advance, if the longest gap is not below 0: then there was one."""
MINUTE_GAP: Final = 28
GAPS: Final = 29
"""How many gaps there were; the last ten follow, as a ring."""
FIRST_GAP: Final = 30
KEPT_GAPS: Final = 10
LAST_KIND: Final = FIRST_GAP + KEPT_GAPS
"""`KEY_KIND` of the record at `LAST_SEEN`: another kind is another key."""
UNREADABLE: Final = LAST_KIND + 1
"""Log offset of the last record that cannot be decoded, if none behind it counts; -1: none."""
SLOT_COLUMNS: Final = UNREADABLE + 1

# Columns of the table of groups.
GROUP_LIFE: Final = 0
GROUP_HAS_MEMBERS: Final = 1
GROUP_COLUMNS: Final = 2

# Registers of the slots.
SLOTS: Final = 0
FREE: Final = 1
ARENA_USED: Final = 2
CREATED: Final = 3
# Registers of the fold.
LOG_TIME: Final = 4
LOG_MINUTE: Final = 5
OPEN_MINUTES: Final = 6
OUT: Final = 7
MINUTES_OUT: Final = 8
MAYBE_FREE: Final = 9
TOMBSTONES: Final = 10
"""How many were written."""
OLDEST_MINUTE: Final = 11
"""No open minute is before it."""
REGISTERS: Final = 12

# Lines of what the fold writes: rows of commits.
OUT_ROW: Final = 0
OUT_IN_FORCE: Final = 1
OUT_IN_FORCE_TIME: Final = 2
OUT_KIND: Final = 3
OUT_HAS_PREVIOUS: Final = 4
OUT_PREVIOUS: Final = 5
OUT_PREVIOUS_TIME: Final = 6
OUT_GROUP: Final = 7
OUT_TOPIC: Final = 8
OUT_PREVIOUS_COMMIT_TIME: Final = 9
OUT_PREVIOUS_EXPIRE_TIME: Final = 10
OUT_PREVIOUS_RECORD: Final = 11
OUT_HAS_UNREADABLE: Final = 12
"""Whether a record whose value cannot be decoded may have counted before."""
OUT_LINES: Final = 13

# Kinds of rows, and origins.
NOTHING: Final = 0
FIRST: Final = 1
ADVANCE: Final = 2
REPEAT: Final = 3
REWIND: Final = 4
SUPERSEDED: Final = 5
TOMBSTONED: Final = 6
MEMBER: Final = 1
OUTSIDE: Final = 2
TRANSACTION: Final = 3

# Lines of minutes.
MINUTES_GROUP: Final = 0
MINUTES_TOPIC: Final = 1
MINUTES_PARTITION: Final = 2
MINUTES_MINUTE: Final = 3
MINUTES_OFFSET: Final = 4
MINUTES_COMMITS: Final = 5
MINUTES_LAST: Final = 6
MINUTES_SUM: Final = 7
MINUTES_LEAST: Final = 8
MINUTES_GAP: Final = 9
MINUTES_LINES: Final = 10

MINUTE_US: Final = 60_000_000
IDLE_MINUTES: Final = 15
"""Minutes of the log after which a partition's last minute has ended."""
