"""The history of a classic group on Apache Kafka 3: by the broker, and by its files beside it."""

import asyncio
import json

import pytest

from kohort.cli.app import run
from kohort.spark import history
from kohort_conformance.runner import warm_up
from peers.kafka import LAST_OF_3, QUICK_START, Kafka, free_port, missing_tools
from spark.history.comparing import same
from spark.history.test_sources import commit
from spark.servers import SETTINGS
from spark.topics import Topics

pytestmark = pytest.mark.clients

BILLING = "billing"
TABLES = ("commits", "groups", "generations", "rebalances", "members", "assignments", "coverage")


@pytest.fixture(scope="module")
def node():
    if reason := missing_tools(LAST_OF_3):
        pytest.skip(reason)
    port, options = free_port(neighbours=1), {"heap": "512m", "flags": QUICK_START}
    with Kafka.start(port, SETTINGS, version=LAST_OF_3, **options) as node:
        asyncio.run(warm_up(node.host, node.port))
        write_history(Topics(node.address))
        yield node


def write_history(topics):
    """A member joins, commits and leaves, twice; then a tool resets the group and deletes it."""
    topics.create("orders", 3)
    commit(topics, BILLING, 5)
    commit(topics, BILLING, 9)
    topics.commit(BILLING, "orders", {0: 2})
    topics.delete_group(BILLING)
    commit(topics, "audit", 1)


@pytest.fixture(scope="module", params=["broker", "files"])
def out(request, session, node, tmp_path_factory):
    """A history of the broker, or of its files while it runs."""
    out = str(tmp_path_factory.mktemp("kafka3") / "out")
    source = node.address if request.param == "broker" else str(node.directory / "log")
    result = history.build(session, source, out)
    assert result.errors == 0
    return out


def test_commits_resets_and_deletions_of_kafka_3_are_in_the_tables(session, out):
    tables = history.read(session, out)
    commits = tables.commits.where("`group` = 'billing'").orderBy("log_offset").collect()
    assert [(row.kind, row.committed, row.previous, row.origin) for row in commits] == [
        ("first", 5, None, "member"),
        ("advance", 9, 5, "member"),
        ("rewind", 2, 9, "outside"),
        ("tombstone", None, 2, None),
    ]
    assert {row.certainty for row in commits} == {"exact"}
    generations = tables.generations.where("`group` = 'billing'").orderBy("log_offset").collect()
    assert {row.type for row in generations} == {"classic"}
    assert [len(row.members) for row in generations if row.members] == [1, 1]
    assert generations[-1].ended_by == "deleted"
    members = tables.members.where("`group` = 'billing'").collect()
    assert [row.ended_by for row in members] == ["left", "left"]
    latest = {row.group: row.committed for row in tables.committed_offsets().collect()}
    assert latest == {"audit": 1}


def test_the_timeline_of_kafka_3_has_its_resets_and_its_end(out, capsys):
    assert run(["history", "show", out, "billing", "--output", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    events = [event["event"] for event in shown["events"]]
    assert [event for event in events if event != "classic"] == ["rewind", "removed", "deleted"]
    assert "orders 0: 9 → 2 (from outside)" in {event["changes"] for event in shown["events"]}
    assert (shown["certainty"], shown["partitions"]) == ("exact", [])


def test_records_of_kafka_3_make_the_same_tables_without_a_directory(session, node, out):
    tables = history.read(session, out)
    records = history.group_records(session, bootstrap=node.address)
    for name in TABLES:
        lazy = records.transform(getattr(history, name)).collect()
        assert same(lazy, getattr(tables, name).collect()), name
