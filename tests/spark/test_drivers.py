"""Drivers of their own, ended in every way: the group learns of it, others take over, no process is
left behind.
"""

import signal
from itertools import count

import pytest

from spark.processes import Driver
from spark.servers import KOHORT, kohort_only
from spark.streams import Stream, wait_for

pytestmark = pytest.mark.clients

_numbers = count()
PARTITIONS = 4
EACH = 10
SOON_S = 90.0
"""Far more than a process takes to end, and far less than `NEVER_MS`."""
NEVER_MS = 600_000
"""A session timeout that no test waits for: whose partitions are taken over before, has left."""
SESSION_MS = 6_000


@pytest.fixture
def shared(session, topics, tmp_path):
    """A topic whose partitions are shared by a query of ours and one of a driver: given the session
    timeout.
    """
    topic = f"drivers-{next(_numbers)}"
    drivers = []

    def make(session_timeout_ms):
        topics.create(topic, PARTITIONS)
        options = {
            "subscribe": topic, "group__id": topic, "startingOffsets": "earliest",
            "kafka__session__timeout__ms": str(session_timeout_ms),
            "kafka__heartbeat__interval__ms": "500",
        }  # fmt: skip
        drivers.append(Driver(topics.address, tmp_path / "theirs", options))
        ours, theirs = (
            Stream(session, topics.address, tmp_path / name, **options)
            for name in ("ours", "theirs")
        )
        both = Both(topics, topic, drivers[0], ours, theirs)
        drivers[0].await_started()
        both.start()
        return both

    yield make
    for query in session.streams.active:
        query.stop()
    for driver in drivers:
        driver.__exit__()


class Both:
    """Our query and the driver's."""

    def __init__(self, topics, topic, driver, ours, theirs):
        self.topics, self.topic, self.driver, self.ours, self.theirs = (
            topics,
            topic,
            driver,
            ours,
            theirs,
        )
        self.written = 0

    def start(self):
        self.query = self.ours.start(processingTime="100 milliseconds")
        wait_for(lambda: self.shares() == [2, 2], "shared", self.query)
        self.write()
        wait_for(self.all_committed, "read by both", self.query)

    def write(self):
        self.topics.fill(self.topic, {each: [b"v"] * EACH for each in range(PARTITIONS)})
        self.written += EACH

    def shares(self):
        return sorted(map(len, self.topics.members(self.topic)))

    def all_committed(self):
        found = self.topics.committed(self.topic).get(self.topic, {})
        return found == dict.fromkeys(range(PARTITIONS), self.written)

    def assert_taken_over(self, within_s):
        """Our query has all partitions, and both queries together have read every record once."""
        wait_for(lambda: self.shares() == [PARTITIONS], "taken over", self.query, within_s)
        self.write()
        wait_for(self.all_committed, "all of it read by us", self.query)
        self.query.stop()
        found = sorted(
            (row.partition, row.offset) for each in (self.ours, self.theirs) for row in each.rows()
        )
        assert found == [(part, at) for part in range(PARTITIONS) for at in range(self.written)]


@kohort_only
@pytest.mark.parametrize(
    ("how", "victim"),
    [
        pytest.param(signal.SIGKILL, "jvm", id="SIGKILL-jvm"),
        pytest.param(signal.SIGKILL, "driver", id="SIGKILL-driver"),
        pytest.param(signal.SIGTERM, "jvm", id="SIGTERM-jvm"),
        # Python ends at once by either signal.
        pytest.param(signal.SIGTERM, "driver", id="SIGTERM-driver", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_ends_leaves_the_group_at_once(shared, how, victim):
    """However it ends: the source's process notices, leaves the group, and ends as well."""
    both = shared(NEVER_MS)
    both.driver.kill(how, victim)
    wait_for(
        lambda: not both.driver.alive() & {"jvm", "source"},
        f"ended: {both.driver.alive()}",
        within_s=SOON_S,
    )
    both.assert_taken_over(SOON_S)


@pytest.mark.parametrize(
    "topics", [KOHORT, pytest.param("kafka", marks=pytest.mark.long)], indirect=True
)
def test_one_whose_machine_is_gone_is_noticed_after_the_session_timeout(shared):
    both = shared(SESSION_MS)
    both.driver.kill(signal.SIGKILL, "source", "jvm", "driver")
    wait_for(lambda: not both.driver.alive(), "ended", within_s=SOON_S)
    both.assert_taken_over(SESSION_MS / 1000 + SOON_S)
