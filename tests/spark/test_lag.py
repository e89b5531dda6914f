"""What Kafka's own tool tells of a query's group: `kafka-consumer-groups --describe`, in both modes
that have one.
"""

from itertools import count

import pytest

from interop.programs import java_missing
from interop.tools import GROUPS, Tool, Tools, rows
from spark.streams import Stream, wait_for

pytestmark = [
    pytest.mark.clients,
    pytest.mark.parametrize("mode", ["reporting", "member"]),
]

_numbers = count()
PARTITIONS = 3
EACH = 10


@pytest.fixture(scope="module")
def tools():
    if reason := java_missing():
        pytest.skip(f"Apache Kafka's tools: {reason}")
    running = Tools()
    yield running
    running.close()


@pytest.fixture
def group(topics):
    """A topic with records, and the name of the group that reads it."""
    name = f"lag-{next(_numbers)}"
    topics.create(name, PARTITIONS)
    topics.fill(name, {each: [b"v"] * EACH for each in range(PARTITIONS)})
    return name


@pytest.fixture
def stream(session, topics, tmp_path, group, mode):
    yield Stream(
        session,
        topics.address,
        tmp_path,
        subscribe=group,
        group__id=group,
        groupMode=mode,
        startingOffsets="earliest",
    )
    for query in session.streams.active:
        query.stop()


@pytest.fixture
def describe(tools, topics, group):
    """Asks the tool; {partition: (committed offset, lag, whose it is)}."""

    def ask():
        told = rows(Tool(tools, GROUPS, topics.address)("--describe", "--group", group))
        return {
            int(row["PARTITION"]): (int(row["CURRENT-OFFSET"]), int(row["LAG"]), row["CONSUMER-ID"])
            for row in told
        }

    return ask


def settled(found, offset):
    """Whether all partitions are told to be at this offset, without lag."""
    return {partition: told[:2] for partition, told in found.items()} == dict.fromkeys(
        range(PARTITIONS), (offset, 0)
    )


def test_no_lag_when_a_run_has_ended(stream, describe, topics, group):
    for run in (1, 2):
        stream.run()
        found = describe()
        assert settled(found, run * EACH), found
        assert {member for _, _, member in found.values()} == {"-"}
        topics.fill(group, {each: [b"w"] * EACH for each in range(PARTITIONS)})
    assert {lag for _, lag, _ in describe().values()} == {EACH}, "what came since"


def test_no_lag_at_an_idle_trigger(stream, describe, topics, group, mode):
    query = stream.start(processingTime="100 milliseconds")
    for run in (1, 2):
        done = {group: dict.fromkeys(range(PARTITIONS), run * EACH)}
        wait_for(lambda done=done: topics.committed(group) == done, "committed", query)
        found = describe()
        assert settled(found, run * EACH), found
        members = {member for _, _, member in found.values()}
        assert (members == {"-"}) == (mode == "reporting"), members
        assert len(members) == 1
        topics.fill(group, {each: [b"w"] * EACH for each in range(PARTITIONS)})
