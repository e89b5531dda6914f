"""`committed_offsets(T)` of recorded logs equals what kafka-consumer-groups showed at T."""

from datetime import UTC, datetime

import pytest

from history.folded import shown
from history.recorded import load
from kohort.spark import history

pytestmark = pytest.mark.clients


def moment(snapshot):
    return datetime.fromtimestamp(snapshot["at"] / 1000, UTC)


@pytest.mark.parametrize("name", ["consumer", "offsets"])
def test_committed_offsets_equal_the_snapshots_of_kafka_consumer_groups(session, name, tmp_path):
    recording = load(name)
    tables = {}
    for log in ("whole", "compacted"):
        history.build(session, str(recording.directory / log), str(tmp_path / log))
        tables[log] = history.read(session, str(tmp_path / log))
    for snapshot in recording.snapshots[::3]:
        expected = shown(snapshot)
        rows = tables["whole"].committed_offsets(moment(snapshot)).collect()
        assert {row.certainty for row in rows} <= {"exact"}
        assert {(row.group, row.topic, row.partition): row.committed for row in rows} == expected
        for row in tables["compacted"].committed_offsets(moment(snapshot)).collect():
            if row.certainty == "exact":
                assert row.committed == expected[row.group, row.topic, row.partition]
            else:
                assert (row.certainty, row.committed) == ("unknown", None)
