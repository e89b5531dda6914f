"""Whatever a coordinator does, the history folded from its log has the groups that it has.

- rows that have not ended == members, generation and owners of the coordinator's groups;
- rows and state are the same if the state is dumped and loaded after each record;
- members and owners follow one another without overlap;
- the log after compaction has the same groups.
"""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant

from coordinator.consumer.test_machine import ConsumerGroupMachine
from coordinator.consumer.test_migration_machine import MigrationMachine
from coordinator.test_group_machine import GroupMachine
from effort import examples
from history.group_logs import fold_all
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
        names = dict(self.history.fold.topic_names)
        assert groups_of(self.history.read()) == groups_on(self.recording, names)

    def teardown(self) -> None:
        super().teardown()  # type: ignore[misc]
        tables = self.history.read()
        rows_follow_one_another(tables)
        assert not [row for row in tables.groups if row["error"] and row["type"] != "classic"]
        live = groups_on(self.recording, dict(self.history.fold.topic_names))
        assert groups_of(fold_all(compacted(self.recording.logged))) == live


class ClassicHistoryMachine(WithHistory, GroupMachine):
    pass


class ConsumerHistoryMachine(WithHistory, ConsumerGroupMachine):
    pass


class MigrationHistoryMachine(WithHistory, MigrationMachine):
    pass


_SETTINGS = settings(
    max_examples=examples(20), stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
TestClassicHistory = ClassicHistoryMachine.TestCase
TestClassicHistory.settings = _SETTINGS
TestConsumerHistory = ConsumerHistoryMachine.TestCase
TestConsumerHistory.settings = _SETTINGS
TestMigrationHistory = MigrationHistoryMachine.TestCase
TestMigrationHistory.settings = _SETTINGS
