"""Whatever a coordinator does, the history folded from its log has the groups that it has.

- rows that have not ended == members, generation and owners of the coordinator's groups;
- commits in force == the coordinator's committed offsets;
- rows and state are the same wherever the log is cut, and after each record;
- members and owners follow one another without overlap;
- all of that holds after compaction, and what rows then say is exact is what the whole log says.
"""

from collections.abc import Mapping

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant

from coordinator.consumer.test_machine import ConsumerGroupMachine
from coordinator.consumer.test_migration_machine import MigrationMachine
from coordinator.test_group_machine import GroupMachine
from effort import examples
from history.folded_tables import FoldedTables
from history.group_logs import Row
from history.recording_bench import (
    HistoryOfBench,
    RecordingBench,
    compacted,
    groups_of,
    groups_on,
    rows_follow_one_another,
)


class WithHistory:
    """Folds the log of a machine's bench."""

    BENCH = RecordingBench

    def __init__(self) -> None:
        super().__init__()
        self.recording: RecordingBench = vars(self)["bench"]
        self.history = HistoryOfBench(self.recording)

    @invariant()
    def the_history_has_the_groups_of_the_coordinator(self) -> None:
        self.has_groups_of_the_coordinator(self.history.read().open)

    def has_groups_of_the_coordinator(self, open_rows: Mapping[str, list[Row]]) -> None:
        names = self.history.names
        found, expected = groups_of(open_rows, names), groups_on(self.recording, names)
        if len(set(names.values())) < len(names):
            # A topic was recreated: partitions of both have one name.
            for group in (*found.values(), *expected.values()):
                del group["owners"]
        assert found == expected

    def teardown(self) -> None:
        super().teardown()  # type: ignore[misc]
        tables = self.history.read()
        rows_follow_one_another(tables)
        assert not [row for row in tables.groups if row["error"] and row["type"] != "classic"]
        whole = self.folded(self.recording.rows)
        rows_follow_one_another(whole)
        rows = self.recording.rows
        for length in (1, 7):
            parts = [rows[start : start + length] for start in range(0, len(rows), length)]
            assert whole.is_same_as(self.folded(*parts))
        for end in (len(rows), len(rows) // 2):
            left = compacted(rows, end)
            whole.is_exact_in(self.folded(left))

    def folded(self, *parts: list[Row]) -> FoldedTables:
        """Folds the parts of a log one after the other: the result has what the coordinator has."""
        tables = FoldedTables.of(parts)
        self.has_groups_of_the_coordinator(tables.open)
        offsets = {
            (group.id, *tp): value.offset
            for group in self.recording.shard.groups.values()
            for tp, value in group.offsets.items()
        }
        assert tables.committed() == offsets
        return tables


class ClassicHistoryMachine(WithHistory, GroupMachine):
    pass


class ConsumerHistoryMachine(WithHistory, ConsumerGroupMachine):
    pass


class MigrationHistoryMachine(WithHistory, MigrationMachine):
    pass


# Shrinking an example takes longer than a test may.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
_SETTINGS = settings(
    max_examples=examples(20),
    stateful_step_count=30,
    phases=_PHASES,
    suppress_health_check=list(HealthCheck),
)
TestClassicHistory = ClassicHistoryMachine.TestCase
TestClassicHistory.settings = _SETTINGS
TestConsumerHistory = ConsumerHistoryMachine.TestCase
TestConsumerHistory.settings = _SETTINGS
TestMigrationHistory = MigrationHistoryMachine.TestCase
TestMigrationHistory.settings = _SETTINGS
