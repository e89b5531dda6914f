"""`kohort history export` and `import`: offsets are found in a cluster where they have other
numbers, and no record is skipped.
"""

import json
import random
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from cli.restoring import RECORDS, Scene, fill, time_of
from cli.running import Outcome, Run, runner
from kohort.client import Producer
from kohort.client.admin import Admin
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.transfers import locating
from kohort.testing.server_process import ServerProcess
from kohort.types import GroupId, TopicPartition
from spark.servers import KAFKA, KOHORT, SETTINGS, server

START = 1_769_860_800_000
NUMBERS = count(1)
Records = Sequence[tuple[bytes, int]]
"""Values and timestamps (ms)."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("old") / "server.log"
    with ServerProcess("--memory", "--dev", log=log, settings=SETTINGS) as process:
        yield process.address


@pytest.fixture(scope="module", params=[KOHORT, KAFKA])
def new(request: pytest.FixtureRequest) -> Iterator[str]:
    with server(request.param) as address:
        yield address


class Move:
    """A topic of two clusters, and a group that goes from the one to the other."""

    def __init__(self, old: str, new: str, run: Run, directory: Path) -> None:
        number = next(NUMBERS)
        self.topic, self.group = f"moved-{number}", GroupId(f"mover-{number}")
        self.file = directory / f"{self.group}.json"
        self.plan = directory / f"{self.group}-plan.json"
        self._run = run
        self.old, self.new = (Scene(address, run, directory) for address in (old, new))

    def fill(self, old: Sequence[Records], new: Sequence[Records]) -> None:
        self.old.do(lambda admin: fill(admin, self.topic, old))
        self.new.do(lambda admin: fill(admin, self.topic, new))

    def export(self, *offsets: int) -> Outcome:
        """After these are committed, by partition."""
        commits = {
            TopicPartition(self.topic, number): OffsetAndMetadata(
                offset=offset, leader_epoch=0, metadata=f"at {offset}"
            )
            for number, offset in enumerate(offsets)
        }
        self.old.do(lambda admin: admin.commit(self.group, commits))
        words = ("history", "export", self.group, "-o", str(self.file))
        done = self.old.run(*words)
        assert done.exit_code == 0, done.stderr
        return done

    def bring(self, *words: str) -> Outcome:
        return self.new.run("history", "import", str(self.file), *words)

    def located(self, *words: str) -> list[tuple[str, int | None]]:
        """Method and new offset, by partition; the import is a dry run."""
        told = self.bring("--output", "json", *words)
        assert told.exit_code in (0, 3), told.stderr
        return [(row["method"], row["new_offset"]) for row in told.json["offsets"]]

    def committed(self) -> dict[int, OffsetAndMetadata]:
        found = self.new.committed(self.group)
        return {tp.partition: commit for tp, commit in found.items()}


@pytest.fixture
def move(
    old: str,
    new: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Move:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Move(old, new, runner(capsys), tmp_path)


def numbered(count: int, *, step_ms: int = 1_000, prefix: bytes = b"") -> list[tuple[bytes, int]]:
    return [(prefix + b"%d" % number, START + number * step_ms) for number in range(count)]


EARLIER = [(b"earlier %d" % number, START - 60_000) for number in range(7)]


def test_shifted_offsets_are_found_exactly_committed_and_undone(move: Move) -> None:
    records = numbered(10)
    move.fill([records] * 3, [[*EARLIER, *records]] * 3)
    move.export(4, 0, 10)
    shown = move.bring()
    assert [row["METHOD"] for row in shown.rows] == ["exact"] * 3
    assert "3 exact" in shown.stderr
    assert move.committed() == {}
    done = move.bring("--execute", "--plan", str(move.plan))
    assert done.exit_code == 0, done.stderr
    # The leader epoch is that of the other cluster, and is left out.
    assert move.committed() == {
        0: OffsetAndMetadata(offset=11, metadata="at 4"),
        1: OffsetAndMetadata(offset=7, metadata="at 0"),
        2: OffsetAndMetadata(offset=17, metadata="at 10"),
    }
    assert move.new.run("groups", "undo", str(move.plan)).exit_code == 0
    assert move.committed() == {}


def test_records_with_equal_timestamps_are_told_apart_by_their_hashes(move: Move) -> None:
    records = numbered(30, step_ms=0)
    move.fill([records] * 2, [[*EARLIER, *records]] * 2)
    move.export(17, 30)
    assert move.located() == [("exact", 24), ("exact", 37)]


def test_equal_records_are_told_apart_by_the_record_before(move: Move) -> None:
    records = [(value, START) for value in (b"a", b"x", b"b", b"x", b"c", b"x")]
    move.fill([records] * 3, [[*EARLIER, *records]] * 3)
    move.export(1, 3, 5)
    assert move.located() == [("exact", 8), ("exact", 10), ("exact", 12)]


def test_the_first_of_records_that_are_alike_in_all_is_taken(move: Move) -> None:
    records = [(b"same", START)] * 6
    move.fill([records] * 2, [[*EARLIER, *records]] * 2)
    move.export(3, 6)
    assert move.located() == [("by time", 8), ("by time", 8)]


def test_a_record_that_is_not_there_leaves_the_one_before(move: Move) -> None:
    """Mirrored up to there, or compacted here."""
    records = numbered(10)
    move.fill([records, records], [[*EARLIER, *records[:4]], [*records[:4], *records[5:]]])
    move.export(4, 4)
    assert move.located() == [("exact", 11), ("exact", 4)]


def test_the_earlier_time_decides_without_the_records(move: Move) -> None:
    """Of the records at 3 and 4 seconds none is here, but others are, before, between and after."""
    records = numbered(10)
    others = [(b"other", START + 1_000 * second) for second in (1, 3, 5)]
    move.fill([records] * 3, [others, others[:1], []])
    move.export(4, 4, 4)
    assert move.located() == [("by time", 1), ("by time", 1), ("by time", 0)]
    told = move.bring()
    assert "no record here is the one at the offset" in told.stderr


def test_the_search_ends_after_some_records(move: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    records = numbered(10, step_ms=0)
    before = [(b"mirrored late %d" % number, START) for number in range(6)]
    move.fill([records], [[*before, *records]])
    move.export(4)
    assert locating.SEARCHED_RECORDS == 10_000
    monkeypatch.setattr(locating, "SEARCHED_RECORDS", 9)
    assert move.located() == [("by time", 0)]
    monkeypatch.setattr(locating, "SEARCHED_RECORDS", 11)
    assert move.located() == [("exact", 10)]


def test_transactions_and_removed_records_around_an_offset(move: Move) -> None:
    """Markers and aborted records are no records; the offset may be that of one."""
    records = numbered(6)

    async def transactions(admin: Admin) -> None:
        await admin.create_topic(move.topic, partitions=1)
        async with Producer(admin.cluster, transactional_id=move.topic) as producer:
            for value, timestamp in records[:3]:
                async with producer.transaction():
                    await producer.send(move.topic, value, partition=0, timestamp=timestamp)
            async with producer.transaction() as transaction:
                await producer.send_and_wait(move.topic, b"aborted", partition=0, timestamp=START)
                await transaction.abort()
            async with producer.transaction():
                for value, timestamp in records[3:]:
                    await producer.send(move.topic, value, partition=0, timestamp=timestamp)

    move.old.do(transactions)
    move.new.do(lambda admin: fill(admin, move.topic, [records]))
    expected = {0: 0, 1: 1, 2: 1, 5: 3, 6: 3, 7: 3, 8: 3, 9: 4, 11: 6, 12: 6}
    for offset, number in expected.items():
        move.file.unlink(missing_ok=True)
        move.export(offset)
        assert move.located() == [("exact", number)], offset


def test_unknown_offsets_are_left_out_with_exit_code_3(move: Move) -> None:
    move.old.do(lambda admin: fill(admin, move.topic, [[], numbered(3)]))
    move.export(0, 2)
    told = move.bring()
    assert told.exit_code == 3
    assert [row["METHOD"] for row in told.rows] == ["unknown"] * 2
    assert "no such partition here" in told.stderr
    move.new.do(lambda admin: fill(admin, move.topic, [numbered(3), numbered(3)]))
    done = move.bring("--execute")
    assert done.exit_code == 3
    assert "the export has no record around the offset" in done.stderr
    assert {number: commit.offset for number, commit in move.committed().items()} == {1: 2}


def test_numbers_are_kept_where_the_option_says_so(move: Move) -> None:
    move.fill([numbered(10)] * 2, [numbered(10, prefix=b"other"), numbered(3, prefix=b"other")])
    move.export(4, 10)
    assert move.located("--same-offsets") == [("same offset", 4), ("same offset", 3)]
    assert "offset 10 is beyond the log's end; set to 3" in move.bring("--same-offsets").stderr


def test_a_topic_with_the_same_id_has_the_same_offsets(move: Move) -> None:
    """A group becomes another one of the same cluster, with epochs and metadata."""
    move.old.do(lambda admin: fill(admin, move.topic, [[(b"same", START)] * 6]))
    move.export(4)
    words = ("--group", f"{move.group}=copy-{move.group}", "--execute")
    done = move.old.run("history", "import", str(move.file), *words)
    assert done.exit_code == 0, done.stderr
    assert [row["METHOD"] for row in done.rows] == ["exact"]
    assert move.old.committed(f"copy-{move.group}") == move.old.committed(move.group)


def test_a_group_with_members_is_refused(move: Move) -> None:
    move.fill([numbered(3)], [numbered(3)])
    move.export(2)
    with move.new.member():
        refused = move.bring("--group", f"{move.group}={move.new.group}", "--execute")
    assert (refused.exit_code, "with 1 member" in refused.stderr) == (3, True)


@pytest.mark.parametrize("seed", range(3))
def test_no_record_is_skipped_and_exact_offsets_have_the_same_rest(move: Move, seed: int) -> None:
    """Random logs with equal records and times, other records here, and some that are missing."""
    chance = random.Random(seed)
    logs, mirrored, offsets, extras = [], [], [], []
    for _ in range(12):
        time, records = START, []
        for _ in range(chance.randint(1, 15)):
            time += chance.choice([0, 0, 1, 50])
            records.append((b"%d" % chance.randint(0, 6), time))
        extra = chance.randint(0, 4)
        keeps = chance.random() < 0.7
        kept = [record for record in records if keeps or chance.random() < 0.8]
        extras.append(extra)
        logs.append(records)
        mirrored.append([*((b"x%d" % number, START - 1) for number in range(extra)), *kept])
        offsets.append(chance.randint(0, len(records)))
    move.fill(logs, mirrored)
    move.export(*offsets)
    for number, (method, found) in enumerate(move.located()):
        assert method in ("exact", "by time")
        rest = mirrored[number][found:]
        unread = [record for record in logs[number][offsets[number] :] if record in rest]
        expected = [record for record in logs[number][offsets[number] :]
                    if record in mirrored[number]]  # fmt: skip
        assert unread == expected, (number, method, found)
        if method == "exact" and len(rest) + found == len(logs[number]) + extras[number]:
            assert rest == logs[number][offsets[number] :]


# --- arguments and files


def test_a_history_has_the_offsets_of_an_earlier_time(old: str, move: Move) -> None:
    scene = move.old
    at_ms = scene.commit(p0=3, p1=RECORDS)
    scene.commit(p0=9)
    scene.build()
    at = ("--history", str(scene.history), "--at", time_of(at_ms))
    done = scene.run("history", "export", scene.group, *at, "-o", str(move.file))
    assert done.exit_code == 0, done.stderr
    content = json.loads(move.file.read_text())
    assert content["source"].startswith("history at ")
    (group,) = content["groups"]
    assert [entry["offset"] for entry in group["partitions"]] == [3, RECORDS]
    first, second = group["partitions"]
    assert (first["before"]["offset"], first["at"]["offset"]) == (2, 3)
    assert (second["before"]["offset"], second["at"]) == (RECORDS - 1, None)
    assert first["metadata"] == "at 3"


def test_an_export_is_never_written_over(move: Move) -> None:
    move.file.write_text("mine")
    refused = move.old.run("history", "export", move.group, "-o", str(move.file))
    assert (refused.exit_code, "exists; name another file" in refused.stderr) == (2, True)
    assert move.file.read_text() == "mine"


def test_a_group_without_commits_is_not_exported(move: Move) -> None:
    refused = move.old.run("history", "export", "nobody", "-o", str(move.file))
    assert (refused.exit_code, "no committed offsets" in refused.stderr) == (1, True)
    assert not move.file.exists()


def test_a_time_needs_a_history(move: Move) -> None:
    refused = move.old.run("history", "export", "g", "--at", "2026-01-31T10:42Z", "-o", "f.json")
    assert (refused.exit_code, "--at needs --history DIR" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "not exported offsets"),
        ("\ufeff[", "not JSON"),
        ('{"format": "kohort offset export", "version": 7, "hash": "xxh64"}', "version 7"),
    ],
)
def test_a_file_that_is_no_export_is_refused(move: Move, content: str, said: str) -> None:
    move.file.write_text(content)
    refused = move.bring("--execute")
    assert (refused.exit_code, said in refused.stderr) == (2, True)
    move.file.write_bytes(b"\xff\xfe")
    assert move.bring().exit_code == 2


def test_groups_of_the_file_are_chosen_and_renamed(move: Move) -> None:
    move.fill([numbered(3)], [numbered(3)])
    move.export(2)
    for words, said in (
        (("--group", "nobody"), "the file has no group nobody"),
        (("--group", f"{move.group}="), "the new group id is empty"),
        (("--group", move.group, "--group", f"{move.group}={move.group}"), "two groups become"),
    ):
        refused = move.bring(*words)
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    told = move.bring("--group", f"{move.group}=renamed")
    assert [row["GROUP"] for row in told.rows] == ["renamed"]
