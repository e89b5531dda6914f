"""Tables of a history that Spark built of archives, beside those of the fold without Spark."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pyarrow as pa
import pytest

from history.folded import OPTIONS, ends_of, folded
from history.offset_logs import batch_of
from history.recorded import load
from history.test_gaps import BEHIND, COMPLETE, commit, unreadable
from kohort.errors import ConfigError
from kohort.history.schema import COVERAGE, OFFSETS, TABLES
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LockedError, open_files
from kohort.history_files.moments import parse_moment
from kohort.history_files.reading import GroupReader
from kohort.history_files.snapshot import MAX_GAPS
from kohort.log.partition_mark import base64_id
from kohort.spark import history
from spark.history.comparing import plain, same

pytestmark = pytest.mark.clients

OF_GROUPS = "substring(hex(key), 1, 4) not in ('0000', '0001')"
"""Records that are no commits."""
NAMES = ("groups", "generations", "rebalances", "members", "assignments", "minutes")
GROUPS = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def out(session, archive, tmp_path_factory):
    """A history of two builds: of a part of the log, and of all of it, with doubled records."""
    out = str(tmp_path_factory.mktemp("history") / "out")
    whole = archive()
    part = whole.where("offset < 400")
    assert history.build(session, part, out, options=OPTIONS).records > 0
    result = history.build(session, whole.union(part), out, options=OPTIONS)
    assert result.rows["commits"] > 0
    assert history.build(session, whole, out).records == 0
    return out


@pytest.fixture(scope="module")
def tables(session, out):
    return history.read(session, out)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_two_builds_is_that_of_the_fold(tables, expected, name):
    frame = getattr(tables, name)
    assert frame.columns == TABLES[name].names
    assert same(frame.collect(), expected.tables[name])


def test_commits_and_offsets_share_their_rows(tables, expected):
    in_force = [row for row in expected.tables["commits"] if row["in_force"] is not None]
    assert same(tables.commits.collect(), in_force)
    offsets = [{name: row[name] for name in OFFSETS.names} for row in expected.tables["commits"]]
    assert same(tables.offsets.collect(), offsets)


def test_coverage_is_that_of_the_states(tables, expected):
    assert tables.coverage.columns == COVERAGE.names
    read = [row for row in expected.coverage if row["records"]]
    assert same(tables.coverage.collect(), read)


def test_transforms_of_records_make_the_same_tables(archive, tables):
    records = archive()
    for name in ("commits", "offsets", "coverage", *NAMES):
        frame = records.transform(getattr(history, name))
        assert frame.columns == getattr(tables, name).columns
        assert same(frame.collect(), getattr(tables, name).collect()), name


def moments(recording):
    """Times of snapshots, and of the middle of the log."""
    return [datetime.fromtimestamp(snapshot["at"] / 1000, UTC) for snapshot in recording.snapshots]


def test_tables_at_a_time_are_those_of_the_log_up_to_there(session, tables, recording):
    from kohort.history.schema import RECORDS

    times = sorted(
        time
        for number in recording.log_partitions
        for time in recording.records("whole", number)["timestamp"].to_pylist()
    )
    assert RECORDS.names
    for moment in times[:: max(len(times) // 4, 1)][1:]:
        ends = {}
        for number in recording.log_partitions:
            records = recording.records("whole", number)
            later = [
                offset
                for offset, time in zip(
                    records["offset"].to_pylist(), records["timestamp"].to_pylist(), strict=True
                )
                if time > moment
            ]
            ends[number] = min(later, default=2**62)
        then = folded(recording, "whole", ends)
        at = tables.at(moment)
        assert same(at.groups.collect(), then.tables["groups"])
        position = ("log_partition", "log_offset", "committed", "in_force", "kind", "txn")
        commits = at.commits.select(*position).collect()
        in_force = [row for row in then.tables["commits"] if row["in_force"] is not None]
        assert same(commits, [{name: row[name] for name in position} for row in in_force])
        for name, columns in {
            "members": ("group", "life", "member_id", "from_offset", "to_offset", "ended_by"),
            "assignments": ("group", "topic", "partition", "from_offset", "member_id", "to_offset"),
            "generations": ("group", "life", "generation", "log_offset", "ended_offset"),
        }.items():
            rows = [{column: row[column] for column in columns} for row in then.tables[name]]
            assert same(getattr(at, name).select(*columns).collect(), rows), name
        committed = {
            (row["group"], row["topic"], row["partition"]): row["committed"]
            for row in sorted(in_force, key=lambda row: (row["log_partition"], row["log_offset"]))
        }
        found = tables.committed_offsets(moment).collect()
        assert {row.certainty for row in found} <= {"exact"}
        assert {(row.group, row.topic, row.partition): row.committed for row in found} == {
            key: offset for key, offset in committed.items() if offset is not None
        }


def test_a_time_without_a_zone_is_refused(tables):
    with pytest.raises(ConfigError, match="has no zone; write 2026-01-31T10:42:00Z for UTC"):
        tables.at("2026-01-31T10:42")
    with pytest.raises(ConfigError, match="is not a time"):
        tables.committed_offsets("yesterday")


def test_a_build_beside_another_is_refused(session, archive, out):
    with (
        opened_for_writing(open_files(out), 0),
        pytest.raises(LockedError, match="another build"),
    ):
        history.build(session, archive(), out)


def test_removed_times_are_refused(session, archive, recording, tmp_path):
    out = str(tmp_path / "out")
    age = datetime.now(UTC) - timedelta(days=0) - moments(recording)[0]
    keep_ms = int(age.total_seconds() * 1000) - 5_000
    history.build(session, archive(), out, keep_ms=keep_ms)
    tables = history.read(session, out)
    latest = history.read(session, out).committed_offsets().collect()
    assert len(latest) > 0
    if tables._snapshot.removed_until_ms is not None:
        with pytest.raises(ConfigError, match="were removed by --keep"):
            tables.at("2020-01-01T00:00Z")


def test_committed_offsets_before_compaction_are_exact_or_unknown(
    session, archive, recording, tmp_path
):
    out = str(tmp_path / "out")
    history.build(session, archive("compacted"), out)
    tables = history.read(session, out)
    certainties = set()
    for snapshot in recording.snapshots:
        whole = folded(recording, "whole", ends_of(snapshot))
        then = {}
        for row in sorted(whole.tables["commits"], key=lambda row: row["log_offset"]):
            if row["in_force"] is not None:
                then[row["group"], row["topic"], row["partition"]] = row["committed"]
        moment = datetime.fromtimestamp(snapshot["at"] / 1000, UTC)
        for offset in tables.committed_offsets(moment).collect():
            certainties.add(offset.certainty)
            if offset.certainty == "exact":
                assert then[offset.group, offset.topic, offset.partition] == offset.committed
            else:
                assert offset.committed is None
    assert "exact" in certainties
    assert plain(tables.coverage.collect())


def without_spark(out, groups, moment):
    """The same of groups with one partition."""
    at = None if moment is None else parse_moment(moment)
    return {
        group: (offset.commit and offset.commit["committed"], offset.certainty)
        for group in groups
        for offset in GroupReader(HistoryDirectory(open_files(out)), group, at).offsets_at()
    }


def test_an_offset_that_was_removed_last_has_no_row(session, tmp_path):
    """Its tombstone waits for its cause in a state."""
    out = str(tmp_path / "out")
    log = [*COMPLETE, commit(3, "busy", None)]
    records = pa.Table.from_batches([batch_of(log)])
    history.build(session, session.createDataFrame(records), out)
    for moment, groups in ((None, {"idle"}), ("1970-01-01T00:00:02Z", {"busy", "idle"})):
        rows = history.read(session, out).committed_offsets(moment).collect()
        assert {row.group for row in rows} == groups
        assert without_spark(out, ("busy", "idle"), moment).keys() == groups


def test_a_log_with_more_gaps_than_a_snapshot_names_is_read_from_its_state(
    session, tmp_path, monkeypatch
):
    """Each hole of an archive may be data loss."""
    out = str(tmp_path / "out")
    log = [commit(offset, "busy", offset) for offset in range(5, 5 * MAX_GAPS + 10, 5)]
    records = pa.Table.from_batches([batch_of([*log, commit(log[-1]["offset"] + 2, "idle", 1)])])
    history.build(session, session.createDataFrame(records), out)
    (stored,) = HistoryDirectory(open_files(out)).snapshot().log_partitions.values()
    assert (stored.gaps, stored.open_commits) == (None, 0)
    tables = history.read(session, out)
    rows = tables.committed_offsets("1970-01-01T00:00:12Z").collect()
    assert {(row.group, row.committed, row.certainty) for row in rows} == {
        ("busy", None, "unknown"),
        ("idle", None, "unknown"),
    }


def test_an_archive_has_the_names_that_it_is_given(session, tmp_path):
    """Without commits no record has both the id and the name of a topic."""
    recording = load("consumer")
    logs = [recording.records("whole", number) for number in recording.log_partitions]
    archive = session.createDataFrame(pa.concat_tables(logs)).where(OF_GROUPS)
    names = {base64_id(UUID(topic_id)): name for topic_id, name in recording.topics.items()}
    history.build(session, archive, str(tmp_path / "out"), topic_names=names)
    built = history.read(session, str(tmp_path / "out")).assignments
    named = history.group_records(session, archive=archive, topic_names=names)
    lazy = named.where("partition >= 0").transform(history.assignments)
    unnamed = archive.transform(history.assignments)
    topics = [
        {row.topic for row in frame.select("topic").distinct().collect()}
        for frame in (built, lazy, unnamed)
    ]
    assert topics[0] == topics[1] == {recording.topics.get(topic, topic) for topic in topics[2]}
    assert topics[2] & set(recording.topics)
    with pytest.raises(ConfigError, match="'orders' is no topic id"):
        history.group_records(session, archive=archive, topic_names={"orders": "orders"})


def test_committed_offsets_are_unknown_where_records_were_lost_between_builds(session, tmp_path):
    out = str(tmp_path / "out")
    for log in (COMPLETE, BEHIND[:2]):
        records = pa.Table.from_batches([batch_of(log)])
        history.build(session, session.createDataFrame(records), out)
    tables = history.read(session, out)

    def committed(moment=None):
        rows = tables.committed_offsets(moment).collect()
        found = {row.group: (row.committed, row.certainty) for row in rows}
        assert found == without_spark(out, ("busy", "idle"), moment)
        return found

    unknown = (None, "unknown")
    assert committed("1970-01-01T00:00:01Z") == {"busy": (2, "exact")}
    # In the hole; at the record behind it, which is complete for its own key only.
    assert committed("1970-01-01T00:01:00Z") == {"busy": unknown, "idle": unknown}
    assert committed("1970-01-01T00:01:40Z") == {"busy": (50, "exact"), "idle": unknown}
    assert committed() == {"busy": (51, "exact"), "idle": unknown}


def random_log(seed):
    """Commits of several groups; some cannot be decoded, some are removals, some have a hole."""
    rng = random.Random(seed)
    log, offset = [], 0
    for _ in range(60):
        group = rng.choice(GROUPS)
        match rng.randrange(6):
            case 0:
                log.append(unreadable(offset, group))
            case 1:
                log.append(commit(offset, group, None))
            case _:
                log.append(commit(offset, group, rng.randrange(100)))
        offset += rng.choice([1] * 20 + [5])
    return log


@pytest.mark.parametrize("seed", range(2))
def test_both_readers_agree_on_what_is_certain(session, tmp_path, seed):
    out, log = str(tmp_path / "out"), random_log(seed)
    for part in (log[:25], log[25:]):
        records = pa.Table.from_batches([batch_of(part)])
        history.build(session, session.createDataFrame(records), out)
    tables, certainties = history.read(session, out), set()
    for at in (*range(5, 60, 9), None):
        moment = None if at is None else f"1970-01-01T00:00:{at:02}Z"
        rows = tables.committed_offsets(moment).collect()
        found = {row.group: (row.committed, row.certainty) for row in rows}
        assert len(found) == len(rows)
        assert found == without_spark(out, GROUPS, moment)
        certainties |= {row.certainty for row in rows}
    assert certainties == {"exact", "unknown"}


def test_an_offset_is_unknown_behind_a_record_that_cannot_be_decoded(session, tmp_path):
    out = str(tmp_path / "out")
    log = [commit(0, "a", 5), unreadable(1, "a"), unreadable(2, "b"), commit(3, "a", 9)]
    records = pa.Table.from_batches([batch_of(log)])
    # Without a hole an archive has no gap.
    history.build(session, session.createDataFrame(records), out)
    tables = history.read(session, out)
    for second, a in ((0, (5, "exact")), (1, (None, "unknown")), (3, (9, "exact"))):
        rows = tables.committed_offsets(f"1970-01-01T00:00:0{second}Z").collect()
        found = {row.group: (row.committed, row.certainty) for row in rows}
        assert found == {"a": a} | ({"b": (None, "unknown")} if second > 1 else {})
    (behind,) = tables.commits.where("log_offset = 3").collect()
    assert behind.certainty == "unknown"
