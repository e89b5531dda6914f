"""A broker in a rack: which responses name it, and what it changes.

These are played on the profile "rack", whose server has `broker.rack`.
"""

from __future__ import annotations

from kohort_conformance.consumers import consumer, joined, named_topic, settle, show
from kohort_conformance.group_log import GroupLog
from kohort_conformance.scenario import PROFILES, scenario
from kohort_conformance.scenarios.configs import ask_about
from kohort_conformance.scenarios.fetching import fetch, filled, part
from kohort_conformance.scenarios.metadata import EVERY_VERSION
from kohort_conformance.scenarios.topics import node_id
from kohort_conformance.stage import Stage

RACK = PROFILES["rack"]["broker.rack"]
BROKER = 4


@scenario(profile="rack")
async def metadata(stage: Stage) -> None:
    """Metadata names the rack of the broker, from version 1 on."""
    a = await stage.client()
    for version in EVERY_VERSION[1:]:
        told = await a.quiet("Metadata", version, topics=[])
        stage.note(f"racks v{version}", [one["rack"] for one in told["brokers"]])


@scenario(profile="rack")
async def cluster(stage: Stage) -> None:
    """So does DescribeCluster."""
    a = await stage.client()
    for version in range(3):
        told = await a.quiet("DescribeCluster", version)
        stage.note(f"racks v{version}", [one["rack"] for one in told["brokers"]])


@scenario(profile="rack")
async def config(stage: Stage) -> None:
    """It is a config of the broker that cannot be altered."""
    a = await stage.client()
    await ask_about(a, BROKER, str(await node_id(a)), ["broker.rack"])


@scenario(profile="rack")
async def preferred_replica(stage: Stage) -> None:
    """With one replica no Fetch is sent elsewhere, from whichever rack it comes."""
    a, topic = await filled(stage)
    for rack in (RACK, "another", ""):
        await fetch(a, topic, part(offset=4), rack_id=rack)


@scenario(profile="rack")
async def consumers(stage: Stage) -> None:
    """Assignors of the server pay no attention to racks."""
    topic = await named_topic(stage, partitions=4)
    log = await GroupLog.of(stage)
    members = []
    for client_id, rack, assignor in (
        ("a", "another", "uniform"),
        ("b", RACK, "uniform"),
        ("c", RACK, "range"),
    ):
        members.append(await consumer(stage, client_id, topic, assignor=assignor))
        await joined(members[-1], rack_id=rack)
        await settle(members)
    await show(members[0].client, stage.group)
    await log.record("settled", by_member=True)
