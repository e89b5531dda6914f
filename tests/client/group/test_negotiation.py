"""Which protocol a member joins with."""

from types import SimpleNamespace

import pytest

from kohort.client.backoff import Backoff
from kohort.client.config import GroupConfig
from kohort.client.errors import BrokerUnreachableError
from kohort.client.group.negotiation import negotiated


class Brokers:
    """A cluster whose brokers have this version of ConsumerGroupHeartbeat, and this feature level.

    The first `away` connections fail.
    """

    def __init__(self, version=1, level=1, away=0):
        self.asked = 0
        self._away = away
        self._connection = SimpleNamespace(
            version={"consumer_group_heartbeat": version}.get,
            feature={"group.version": level}.get,
        )

    def backoff(self):
        return Backoff(1, 1, lambda a, _: a)

    async def any_connection(self):
        self.asked += 1
        if self.asked <= self._away:
            raise BrokerUnreachableError("away")
        return self._connection


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_protocol_that_is_named_is_taken_unasked(protocol):
    brokers = Brokers(version=None)
    config = GroupConfig(group_id="g", topics=["t"], protocol=protocol)
    assert await negotiated(brokers, config) is config
    assert brokers.asked == 0


@pytest.mark.parametrize(
    ("brokers", "chosen"),
    [
        (Brokers(), "consumer"),
        (Brokers(version=0), "consumer"),
        (Brokers(version=None), "classic"),
        (Brokers(level=0), "classic"),
        (Brokers(away=2), "consumer"),
    ],
    ids=["4.0", "3.7", "older", "turned off", "away"],
)
async def test_auto_takes_what_the_brokers_have(brokers, chosen):
    config = GroupConfig(group_id="g", topics=["t"], protocol="auto", remote_assignor="range")
    found = await negotiated(brokers, config)
    assert found.protocol == chosen
    assert found.remote_assignor == ("range" if chosen == "consumer" else None)


async def test_a_pattern_needs_version_1():
    config = GroupConfig(group_id="g", pattern="t.*", protocol="auto")
    assert (await negotiated(Brokers(version=0), config)).protocol == "classic"
    assert (await negotiated(Brokers(version=1), config)).protocol == "consumer"
