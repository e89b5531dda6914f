"""Whatever a coordinator does, the commits folded from its log are the offsets that it has.

- offsets in force == those of the coordinator == those of the log replayed;
- rows and state are the same wherever the log is cut;
- the log after compaction has the same offsets, and calls nothing exact that is not.
"""

import random
from itertools import pairwise

from hypothesis import HealthCheck, settings

from coordinator.test_group_machine import GroupMachine
from coordinator.test_offset_machine import OffsetMachine
from effort import examples
from history.committed_offsets import Key, Row, in_force, is_exact
from history.offset_logs import batch_of
from history.recording_bench import RecordingBench, compacted
from history.test_commit_fold import Folded, assert_equal
from kohort.history.schema import TABLES


def offsets_on(bench: RecordingBench) -> dict[Key, int]:
    return {
        (group.id, *partition): value.offset
        for group in bench.shard.groups.values()
        for partition, value in group.offsets.items()
    }


def offsets_at(commits: list[Row], end: int) -> dict[Key, int]:
    return {key: row["committed"] for key, row in in_force(commits, end).items()}


class WithCommits:
    """Folds the log of a machine's bench."""

    BENCH = RecordingBench

    def teardown(self) -> None:
        super().teardown()  # type: ignore[misc]
        bench: RecordingBench = vars(self)["bench"]
        log, rng = bench.rows, random.Random(len(bench.rows))
        whole = Folded([batch_of(log)], log_partition=0)
        commits = whole.rows("commits")
        assert not [row for row in commits if row["error"]]
        assert offsets_at(commits, len(log)) == offsets_on(bench)
        self.cut(log, whole, rng)
        end = rng.randint(0, len(log))
        self.compacted(compacted(log, end), whole, rng)

    def cut(self, log: list[Row], whole: Folded, rng: random.Random) -> None:
        bounds = sorted({0, len(log), *(rng.randint(0, len(log)) for _ in range(5))})
        parts = [batch_of(log[start:end]) for start, end in pairwise(bounds)]
        cut = Folded(parts, round_trips=True, log_partition=0)
        for name in TABLES:
            assert_equal(cut.rows(name), whole.rows(name))
        assert cut.state.to_arrow() == whole.state.to_arrow()

    def compacted(self, left: list[Row], whole: Folded, rng: random.Random) -> None:
        folded = Folded([batch_of(left)], log_partition=0)
        commits, coverage = folded.rows("commits"), folded.coverage()
        true_rows = {row["log_offset"]: row for row in whole.rows("commits")}
        end = whole.state.next_offset
        assert offsets_at(commits, end) == offsets_at([*true_rows.values()], end)
        for row in commits:
            if row["certainty"] == "exact":
                others = {"life": None, "cause": None, "origin": None}
                others |= dict.fromkeys(("member_id", "client_id", "client_host", "generation"))
                assert row | others == true_rows[row["log_offset"]] | others
        positions = [*(row["offset"] for row in left), end]
        for position in rng.sample(positions, min(len(positions), 8)):
            found = offsets_at(commits, position)
            true = offsets_at([*true_rows.values()], position)
            assert found.items() <= true.items()
            assert found == true or not is_exact(coverage, position)


class ClassicCommitsMachine(WithCommits, GroupMachine):
    pass


class OffsetCommitsMachine(WithCommits, OffsetMachine):
    pass


_SETTINGS = settings(
    max_examples=examples(10), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestClassicCommits = ClassicCommitsMachine.TestCase
TestClassicCommits.settings = _SETTINGS
TestOffsetCommits = OffsetCommitsMachine.TestCase
TestOffsetCommits.settings = _SETTINGS
