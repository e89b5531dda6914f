"""The state of the fold of one log partition between two calls."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import commit_tables as fk
from kohort.errors import KohortError
from kohort.history import state_format
from kohort.history.arrow_columns import joined
from kohort.history.commit_rows import CommitRows
from kohort.history.commit_times import SlotTimes
from kohort.history.coverage import Coverage
from kohort.history.group_fold import GroupFold, GroupOptions
from kohort.history.partitions import Partitions
from kohort.history.record_table import Pending, column
from kohort.history.schema import COVERAGE, TABLES
from kohort.history.silence import Silence
from kohort.history.tombstones import Tombstones

MANY_NAMES: Final = 20_000
"""Groups, topics and owners that a state may have besides twice those that it began with."""


class State:
    """The state of the fold of a log partition, at `next_offset`."""

    def __init__(
        self,
        log_partition: int,
        options: GroupOptions,
        coverage: Coverage,
        partitions: Partitions,
        pending: Pending,
        tombstones: Tombstones,
        silence: Silence,
    ) -> None:
        self.log_partition = log_partition
        self.options = options
        self.coverage = coverage
        self.partitions = partitions
        self.pending = pending
        self.tombstones = tombstones
        self.silence = silence
        self.groups = GroupFold(
            log_partition=log_partition,
            commits=SlotTimes(partitions, silence, tombstones),
            options=options,
        )
        self._names_at_first = partitions.names
        self.changed_groups: set[str] = set()
        """Groups with records since the last commit."""

    def __repr__(self) -> str:
        return f"<State of log partition {self.log_partition} at {self.next_offset}>"

    @classmethod
    def new(cls, log_partition: int, options: GroupOptions | None = None) -> "State":
        """Of a log partition of which nothing has been read."""
        return cls(
            log_partition,
            options or GroupOptions(),
            Coverage(),
            Partitions(),
            Pending.none(),
            Tombstones(),
            Silence(),
        )

    @property
    def next_offset(self) -> int:
        """Offset behind the last record; 0 if there is none."""
        return self.coverage.end

    @property
    def open_commits(self) -> int:
        """How many rows of `commits` are open: of open transactions, and of tombstones."""
        return self.pending.size + self.tombstones.count

    # --- the fold

    def unseen(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records behind those that were folded. Raises KohortError for another partition."""
        partitions = column(records, "partition").to_numpy()
        if np.any(partitions != self.log_partition):
            raise KohortError(
                f"records of other log partitions than {self.log_partition}: "
                f"{sorted(set(partitions.tolist()))}"
            )
        offsets = column(records, "offset").to_numpy()
        before = np.empty_like(offsets)
        before[:1] = self.next_offset - 1
        np.maximum.accumulate(offsets[:-1], out=before[1:])
        is_new = offsets > np.maximum(before, self.next_offset - 1)
        return records if is_new.all() else records.filter(pa.array(is_new))

    def end_write(self) -> None:
        """The next record is a commit or a marker: apply the groups' records before it."""
        if not self.changed_groups:
            return
        self.groups.end_write()
        for group in self.changed_groups:
            number = self.partitions.group_number(group)
            values = self.partitions.groups[number]
            values[fk.GROUP_HAS_MEMBERS] = self.groups.has_members(group)
            life = self.groups.life(group)
            if life is not None:
                values[fk.GROUP_LIFE] = life
        self.changed_groups.clear()

    def end_life(self, group: str) -> None:
        """Its tombstone: the next commit begins another life, unless the group goes on."""
        self.partitions.groups[self.partitions.group_number(group), fk.GROUP_LIFE] = -1

    def free(self) -> None:
        """Free the slots of partitions without state."""
        if self.coverage.repeated_from is not None:
            self.partitions.free()

    def pruned(self) -> "State":
        """The same state without unused names, if many were added."""
        if self.partitions.names < MANY_NAMES + 2 * self._names_at_first:
            return self
        return State.from_arrow(self.to_arrow())

    # --- rows

    def open_rows(self) -> dict[str, pa.RecordBatch]:
        """Rows of what has not ended, by table.

        Generations, rebalances, members, assignments and minutes have null ends. Commits are those
        of open transactions, and tombstones whose cause is not decided yet.
        """
        exact_since = self.coverage.exact_since_now()
        rows = {
            name: pa.RecordBatch.from_pylist(some, TABLES[name])
            for name, some in self.groups.open_rows(exact_since).items()
        }
        made = CommitRows(self.log_partition, self.partitions)
        pending = made.open_rows(self.pending, self.coverage)
        rows["commits"] = joined([pending, self.tombstones.rows])
        rows["minutes"] = made.minutes(self.partitions.open_minutes())
        return {
            name: rows[name] if name in rows else pa.RecordBatch.from_pylist([], schema)
            for name, schema in TABLES.items()
        }

    def committed(self) -> pa.RecordBatch:
        """The commit of each partition that is known to be in force now: rows of COMMITTED."""
        made = CommitRows(self.log_partition, self.partitions)
        return made.committed(self.partitions.committed())

    def coverage_row(self) -> pa.RecordBatch:
        """The row of `coverage`."""
        producers = len(np.unique(self.pending.rows[fk.PRODUCER_ID]))
        row = self.coverage.row() | {"log_partition": self.log_partition}
        return pa.RecordBatch.from_pylist([row | {"open_transactions": producers}], COVERAGE)

    # --- bytes

    def to_arrow(self) -> bytes:
        """All of it, for `from_arrow`. Equal states have equal bytes."""
        registers = self.partitions.registers
        about = {
            "log_partition": self.log_partition,
            "options": asdict(self.options),
            "coverage": state_format.coverage_to_json(self.coverage),
            "silences": self.silence.silences,
            "tombstones": self.tombstones.dump(),
            "touched": sorted(self.changed_groups),
            "log_time": int(registers[fk.LOG_TIME]),
            "log_minute": int(registers[fk.LOG_MINUTE]),
        }
        dump = state_format.PartitionsDump(self.partitions, self.pending, self.coverage.seen_since)
        return state_format.pack(
            {
                "about": state_format.to_json(about),
                **dump.parts(),
                "tombstones": state_format.batch_to_bytes(self.tombstones.rows),
                "group_fold": self.groups.dump(),
            }
        )

    @classmethod
    def from_arrow(cls, data: bytes) -> "State":
        """The state that `to_arrow` wrote.

        Raises KohortError if the bytes are damaged, or of another version of the format.
        """
        parts = state_format.unpack(data)
        try:
            return cls._of_parts(parts)
        except (LookupError, TypeError, ValueError) as error:
            raise KohortError(
                f"the state of a history was written by another version of Kohort ({error!r}); "
                f"{state_format.BUILD_ANEW}"
            ) from error

    @classmethod
    def _of_parts(cls, parts: Mapping[str, bytes]) -> "State":
        about = json.loads(parts["about"])
        partitions, pending = state_format.load_partitions(parts, about)
        waiting = state_format.batch_from_bytes(parts["tombstones"])
        state = cls(
            about["log_partition"],
            GroupOptions(**about["options"]),
            state_format.coverage_from_json(about["coverage"]),
            partitions,
            pending,
            Tombstones.load(about["tombstones"], waiting),
            Silence([(start, end) for start, end in about["silences"]]),
        )
        state.groups.load(parts["group_fold"])
        state.changed_groups = set(about["touched"])
        return state
