"""The history of a running server: of the broker, of its files, and of a stream that follows."""

import threading
from uuid import UUID

import pytest

from kohort.errors import ConfigError, KohortError
from kohort.history_files.snapshot import Snapshot, StoredState
from kohort.log.partition_mark import MARK, encode_mark
from kohort.spark import history
from kohort.spark.history.building import log_work
from kohort.spark.history.sources import is_path, log_of
from spark.history.comparing import same
from spark.servers import KOHORT, KohortServer, server
from spark.streams import wait_for
from spark.topics import Topics

pytestmark = pytest.mark.clients

NAMES = ("commits", "groups", "generations", "members", "assignments", "coverage")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def broker(session):
    with server(KOHORT) as address:
        topics = Topics(address)
        topics.create("orders", 3)
        yield topics


def commit(broker, group, offset):
    """A commit of a member that joins, commits and leaves."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    consumer.subscribe(["orders"])
    try:
        wait_for(lambda: consumer.poll(0.1) or consumer.assignment(), "assigned")
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def test_a_broker_is_read_to_its_end_and_continued(session, broker, tmp_path):
    out = str(tmp_path / "out")
    commit(broker, "billing", 5)
    first = history.build(session, broker.address, out)
    assert first.records > 0
    assert first.errors == 0
    assert history.build(session, broker.address, out).records == 0
    commit(broker, "billing", 9)
    history.build(session, broker.address, out)
    tables = history.read(session, out)
    rows = tables.commits.where("`group` = 'billing'").orderBy("log_offset").collect()
    assert [(row.committed, row.previous, row.origin) for row in rows] == [
        (5, None, "member"),
        (9, 5, "member"),
    ]
    at = rows[0].time.isoformat() + "+00:00"
    (then,) = tables.committed_offsets(at).where("`group` = 'billing'").collect()
    assert (then.committed, then.certainty) == (5, "exact")
    (member,) = tables.at(at).members.where("`group` = 'billing'").collect()
    assert member.to is None
    records = history.group_records(session, bootstrap=broker.address)
    for name in NAMES:
        lazy = records.transform(getattr(history, name)).collect()
        assert same(lazy, getattr(tables, name).collect()), name


def test_a_broker_names_topics(broker):
    names = log_of(broker.address).topic_names()
    assert {"orders", "__consumer_offsets"} <= set(names.values())
    assert all(UUID(topic_id) for topic_id in names)


def test_directories_of_partitions_name_topics(tmp_path):
    topic_id = UUID("00000000-0000-4000-8000-000000000007")
    for name in ("orders-0", "orders-1", "unmarked-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").touch()
    (tmp_path / "orders-0" / MARK).write_bytes(encode_mark(topic_id))
    assert log_of(str(tmp_path)).topic_names() == {str(topic_id): "orders"}


def test_a_history_of_another_cluster_is_refused(session, broker, tmp_path):
    out = str(tmp_path / "out")
    commit(broker, "refused", 1)
    history.build(session, broker.address, out)
    with server(KOHORT) as address:
        other = Topics(address)
        other.create("orders", 3)
        commit(other, "billing", 1)
        with pytest.raises(KohortError, match=r"is the history of (cluster|topic id)"):
            history.build(session, address, out)


class Following:
    """A stream in a thread, ended at the end of the block."""

    def __init__(self, session, address, out):
        self._ended, self.batches, self.errors = threading.Event(), [], []

        def run():
            try:
                history.follow(
                    session, address, out, every="100 milliseconds",
                    is_stopped=self._ended.is_set,
                    on_batch=lambda *batch: self.batches.append(batch),
                )  # fmt: skip
            except Exception as error:
                self.errors.append(error)

        self._thread = threading.Thread(target=run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        assert self.errors == []


def test_a_stream_follows_and_a_restart_continues(session, broker, tmp_path):
    out = str(tmp_path / "out")
    commit(broker, "followed", 1)
    for offset in (2, 3):
        with Following(session, broker.address, out) as following:

            def is_committed(following=following, offset=offset):
                if not following.batches:
                    return bool(following.errors)
                latest = history.read(session, out).committed_offsets()
                rows = latest.where("`group` = 'followed'").collect()
                return [row.committed for row in rows] == [offset]

            commit(broker, "followed", offset)
            wait_for(is_committed, "followed", within_s=120)
    tables = history.read(session, out)
    rows = tables.commits.where("`group` = 'followed'").orderBy("log_offset").collect()
    assert [row.committed for row in rows] == [1, 2, 3]
    whole = str(tmp_path / "whole")
    history.build(session, broker.address, whole)
    history.build(session, broker.address, out)
    for name in NAMES:
        built = getattr(history.read(session, whole), name).collect()
        assert same(getattr(history.read(session, out), name).collect(), built), name


def test_files_without_a_log_of_groups_are_refused(session, tmp_path):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    with pytest.raises(ConfigError, match="no directory __consumer_offsets-N"):
        history.build(session, str(tmp_path), str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="files cannot be followed, only brokers"):
        history.follow(session, str(tmp_path), str(tmp_path / "out"))


def test_segment_files_give_the_tables_of_the_fold(session, recording, expected, tmp_path):
    from history.folded import OPTIONS

    out = str(tmp_path / "out")
    history.build(session, str(recording.directory / "whole"), out, options=OPTIONS)
    tables = history.read(session, out)
    for name in ("groups", "generations", "members", "assignments", "rebalances", "minutes"):
        assert same(getattr(tables, name).collect(), expected.tables[name]), name
    records = history.group_records(session, path=str(recording.directory / "whole"))
    assert records.count() == sum(row["records"] for row in expected.coverage)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("broker:9092", False),
        ("SASL_SSL://broker:9092,other:9092", False),
        ("broker", False),
        ("/var/lib/kafka", True),
        ("data/kafka,data/kafka2", True),
        ("s3://bucket/kafka", True),
        (".", True),
    ],
)
def test_a_source_is_a_path_or_servers(source, expected):
    assert is_path(source) is expected


def test_directories_of_several_clusters_are_refused(tmp_path):
    for cluster, number in (("one", 0), ("other", 1)):
        directory = tmp_path / cluster / f"__consumer_offsets-{number}"
        directory.mkdir(parents=True)
        (directory / MARK).write_bytes(encode_mark(UUID(int=number + 7)))
        (directory / f"{0:020}.log").write_bytes(b"")
    log = log_of(f"{tmp_path / 'one'},{tmp_path / 'other'}")
    with pytest.raises(ConfigError, match="are of several clusters"):
        log.offsets()
    assert log_of(str(tmp_path / "one")).offsets().ends == {0: 0}


def test_log_partitions_that_are_gone_are_named(tmp_path, caplog):
    """A broker moves partitions to other directories and other brokers."""
    directory = tmp_path / "__consumer_offsets-1"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"")
    states = {number: StoredState(0, None) for number in (1, 7, 11)}
    work = log_work(None, log_of(str(tmp_path)), str(tmp_path), history.GroupOptions())
    assert work.offsets(Snapshot(log_partitions=states)).ends == {1: 0}
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("log partitions 7, 11 of the history are not in the source now")


def test_a_stream_goes_on_when_its_broker_returns(session, tmp_path):
    running = KohortServer(tmp_path)
    try:
        topics = Topics(running.address)
        topics.create("orders", 3)
        commit(topics, "returning", 1)
        out = str(tmp_path / "out")
        with Following(session, running.address, out) as following:
            wait_for(lambda: following.batches or following.errors, "a batch", within_s=120)
            running.is_killed()
            commit(topics, "returning", 2)

            def is_followed():
                rows = history.read(session, out).committed_offsets().collect()
                return following.errors or [row.committed for row in rows] == [2]

            wait_for(is_followed, "followed", within_s=120)
    finally:
        running.stop()
