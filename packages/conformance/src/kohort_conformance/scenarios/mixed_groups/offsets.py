"""Offsets and administration of a consumer group with a classic member."""

from __future__ import annotations

from kohort_conformance.consumers import consumer, joined, show
from kohort_conformance.members import look
from kohort_conformance.mixed_members import mixed
from kohort_conformance.producers import BY_ID, NEW, OLD, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def classic_member_commits(stage: Stage) -> None:
    """A classic member commits in any version, and hears 22 of another generation."""
    a, b, topic = await mixed(stage)
    for version in range(2, 10):
        await b.commit(topic, {0: version}, version)
    for generation in (-1, 0, b.generation - 1, b.generation + 1):
        await b.commit(topic, {0: 1}, generation=generation)
    await b.commit(topic, {0: 1}, group_instance_id="i")
    await b.commit(topic, {0: 1}, member_id="")
    await a.commit(topic, {0: 2})
    c = await joined(await consumer(stage, "c", topic))
    await b.commit(topic, {0: 5})
    await c.leave()


@scenario
async def classic_member_commits_in_transactions(stage: Stage) -> None:
    """Each version of TxnOffsetCommit by a classic member, and with another generation."""
    _, b, topic = await mixed(stage)
    one = await producer(stage, "p")
    for version in (OLD, NEW, BY_ID):
        if version == OLD:
            await one.add_offsets(stage.group)
        for generation in (b.generation, b.generation - 1, b.generation + 1, -1, 0):
            await one.commit_offsets(
                stage.group, topic, {0: 1}, version, member_id=b.id, generation_id=generation
            )
        await one.end(True, min(version, NEW))


@scenario
async def classic_member_fetches_offsets(stage: Stage) -> None:
    """OffsetFetch with the id and generation of a classic member."""
    a, b, topic = await mixed(stage)
    await a.committing(topic, {0: 4}).quiet()
    for member_id, epoch in (
        (b.id, b.generation),
        (b.id, b.generation + 1),
        (b.id, 0),
        (a.id, a.epoch),
        (a.id, a.epoch + 1),
        ("nobody", 1),
        (None, -1),
        (None, a.epoch),
    ):
        asked = {
            "group_id": stage.group,
            "member_id": member_id,
            "member_epoch": epoch,
            "topics": [{"name": topic, "partition_indexes": [0]}],
        }
        await a.client.ask("OffsetFetch", 9, groups=[asked])


@scenario
async def admin_of_a_mixed_group(stage: Stage) -> None:
    """DescribeGroups, ListGroups, DeleteGroups and OffsetDelete of a mixed group."""
    a, _, topic = await mixed(stage)
    admin = await stage.client("admin")
    for version in (0, 5, 6):
        await look(admin, stage.group, version)
    for version in (0, 1):
        await show(admin, stage.group, version)
    for version in (2, 3):
        await admin.ask("DeleteGroups", version, groups_names=[stage.group])
    await admin.ask(
        "OffsetDelete",
        0,
        group_id=stage.group,
        topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
    )
    await a.beat()
