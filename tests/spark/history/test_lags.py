"""Lag and status in Spark: the rows of the functions without it, and those of a running server."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from kohort.history.lag import lag_table
from kohort.history.schema import COMMITS, LAG, MEMBERS, SAMPLES, STATUS
from kohort.history.status import status_table
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import open_files
from kohort.history_files.status import status_at
from kohort.spark import history
from kohort.spark.history import following
from kohort.spark.history.sampling import Sampler
from kohort.types import TopicPartition
from spark.history.comparing import same
from spark.history.test_sources import Following, commit
from spark.servers import KOHORT, server
from spark.streams import wait_for
from spark.topics import Topics

pytestmark = pytest.mark.clients

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def rows_of_tables():
    """Commits and samples of two hours: two groups, three partitions, of which one is new."""
    commits = [
        {"group": group, "topic": "t", "partition": number, "topic_id": "id", "kind": "advance",
         "committed": minute * (10 + number), "in_force": minute,
         "in_force_time": START + timedelta(minutes=minute, seconds=number)}
        for group in ("a", "b") for number in range(2) for minute in range(60 + 60 * (group == "a"))
    ]  # fmt: skip
    samples = [
        {"topic": "t", "partition": number, "topic_id": "id" if number < 2 else None, "end": at * 6,
         "start": None if at < 9 else at, "method": "grid" if at < 9 else "sampled",
         "time": START + timedelta(seconds=at * 30)}
        for number in range(3) for at in range(240)
    ]  # fmt: skip
    return pa.Table.from_pylist(commits, COMMITS), pa.Table.from_pylist(samples, SAMPLES)


def test_lag_and_status_of_frames_are_those_of_the_tables(session):
    commits, samples = rows_of_tables()
    lags = session.createDataFrame(commits).transform(history.lag, session.createDataFrame(samples))
    assert lags.columns == LAG.names
    expected = lag_table(commits, samples)
    assert same(lags.collect(), expected.to_pylist())
    at = START + timedelta(hours=1, minutes=55)
    members = pa.Table.from_pylist(
        [{"group": "a", "from": START}, {"group": "b", "from": START, "to": START}], MEMBERS
    )
    found = lags.transform(history.status, at, session.createDataFrame(members))
    assert found.columns == STATUS.names
    statuses = status_table(expected, at, empty_groups=["b"])
    assert same(found.collect(), statuses.to_pylist())
    assert {"empty", "ok"} <= set(statuses["status"].to_pylist())
    without = lags.transform(history.status, at=at.isoformat()).where("status = 'stopped'")
    assert {row.group for row in without.collect()} == {"b"}


@pytest.fixture(scope="module")
def broker(session):
    with server(KOHORT) as address:
        topics = Topics(address)
        topics.create("orders", 2)
        topics.create("other", 1)
        topics.fill("orders", {0: [b"v"] * 10, 1: [b"v"] * 3})
        yield topics


def ends(frame):
    return {TopicPartition(row.topic, row.partition): (row.start, row.end) for row in frame}


def test_a_build_samples_the_ends_of_committed_topics(session, broker, tmp_path):
    out = str(tmp_path / "out")
    commit(broker, "billing", 4)
    history.build(session, broker.address, out, samples=False)
    assert history.read(session, out).samples.count() == 0
    assert history.read(session, out).status().count() == 0
    history.build(session, broker.address, out)
    tables = history.read(session, out)
    sampled = tables.samples.where("method = 'sampled'").collect()
    orders = {TopicPartition("orders", 0): (0, 10), TopicPartition("orders", 1): (0, 3)}
    assert ends(sampled) == orders
    assert {row.topic_id is None for row in sampled} == {False}
    grid = tables.samples.where("method = 'grid'").collect()
    assert {row.end for row in grid if row.partition == 0} <= {10}
    (last,) = tables.lag.where("`group` = 'billing' and method = 'sampled'").collect()
    assert (last.partition, last.committed, last.lag, last.case) == (0, 4, 6, "ok")
    of_frames = tables.commits.transform(history.lag, tables.samples)
    assert same(tables.lag.collect(), of_frames.collect())
    found = tables.status()
    (row,) = found.where("`group` = 'billing'").collect()
    assert (row.partition, row.lag, row.status) == (0, 6, "ok")
    assert same(found.collect(), status_at(HistoryDirectory(open_files(out))).to_pylist())
    before = tables.at("2020-01-31T10:42Z")
    assert before.samples.count() == before.lag.count() == before.status().count() == 0


def test_a_stream_samples_beside_its_batches(session, broker, tmp_path, monkeypatch):
    monkeypatch.setattr(following, "Sampler", lambda sample: Sampler(sample, interval_s=0.2))
    monkeypatch.setattr(following, "STORE_SAMPLES_S", 0.5)
    out = str(tmp_path / "out")
    commit(broker, "followed", 2)
    with Following(session, broker.address, out) as following_:
        wait_for(lambda: following_.batches or following_.errors, "folded", within_s=120)

        def times():
            samples = history.read(session, out).samples.where("method = 'sampled'")
            return following_.errors or samples.select("time").distinct().count() >= 3

        wait_for(times, "samples without a batch", within_s=120)
    rows = history.read(session, out).samples.collect()
    keys = [(row.topic, row.partition, row.time, row.method) for row in rows]
    assert len(keys) == len(set(keys)), "each sample once"
    assert {row.topic for row in rows} == {"orders"}
