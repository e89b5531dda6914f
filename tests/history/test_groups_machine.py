"""Whatever a coordinator does, the history folded from its log has the groups that it has.

- rows that have not ended == members, generation and owners of the coordinator's groups;
- rows and state are the same if the state is dumped and loaded after each record;
- members and owners follow one another without overlap;
- the log after compaction has the same groups.
"""

from collections import defaultdict
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant

from coordinator.consumer.test_machine import ConsumerGroupMachine
from coordinator.consumer.test_migration_machine import MigrationMachine
from coordinator.test_group_machine import GroupMachine
from effort import examples
from history.group_logs import Tables, fold_all
from history.recording_bench import HistoryOfBench, RecordingBench, compacted, groups_of, groups_on


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


def rows_follow_one_another(tables: Tables) -> None:
    by_key: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    ends = {
        "generations": ("log_offset", "ended_offset"),
        "members": ("from_offset", "to_offset"),
        "assignments": ("from_offset", "to_offset"),
    }
    keys = {
        "generations": ("group",),
        "members": ("group", "member_id"),
        "assignments": ("group", "topic", "partition"),
    }
    for table, (start, end) in ends.items():
        for row in (*getattr(tables, table), *tables.open[table]):
            key = table, *(row[name] for name in keys[table])
            until = 10**9 if row[end] is None else row[end]
            by_key[key].append((row[start], until))
    for key, spans in by_key.items():
        spans.sort()
        assert all(start <= end for start, end in spans), key
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), key


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
