"""TxnOffsetCommit in every version and state, and what OffsetFetch says of pending offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort_conformance.members import gather_round, look, member, stable, static_group
from kohort_conformance.producers import BY_ID, NEW, OLD, PlayedProducer, newcomer, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.commits import by_id
from kohort_conformance.scenarios.transaction_partitions import covered
from kohort_conformance.stage import NO_TOPIC, Client, Stage, topic_id

EVERY_VERSION = range(7)
OF_OLD_PROTOCOL = range(5)
WITH_MEMBERS = range(3, 7)
"""Versions that carry group member and generation."""
NOBODY = 2**60


async def offsets(client: Client, group: str, topic: str, *partitions: int) -> None:
    """Record OffsetFetch of some partitions (0 when none are named), any and only stable ones."""
    asked = [{"name": topic, "partition_indexes": partitions or (0,)}]
    for stable_only in (False, True):
        await client.ask("OffsetFetch", 7, group_id=group, topics=asked, require_stable=stable_only)


async def joined(stage: Stage, client_id: str = "a", group: str | None = None) -> PlayedProducer:
    """A producer with an open transaction that covers a group, by default the scenario's."""
    a = await producer(stage, client_id)
    request = {"transactional_id": a.transactional_id, "producer_id": a.id}
    await a.client.quiet(
        "AddOffsetsToTxn", 3, **request, producer_epoch=a.epoch, group_id=group or stage.group
    )
    return a


@scenario
async def old_protocol_in_every_version(stage: Stage) -> None:
    """Pending until the commit, in a transaction that AddOffsetsToTxn has extended to the group."""
    topic = await stage.create_topic()
    for version in OF_OLD_PROTOCOL:
        a = await joined(stage, f"v{version}")
        await a.commit_offsets(stage.group, topic, {0: 10 + version}, version)
        await offsets(a.client, stage.group, topic)
        await a.end(True)
        await offsets(a.client, stage.group, topic)


@scenario
async def new_protocol(stage: Stage) -> None:
    """Version 5 adds the group to the transaction, or begins one with it."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for version in (NEW, BY_ID):
        for commit in (True, False):
            await a.commit_offsets(stage.group, topic, {0: 7 if commit else 8}, version)
            await covered(a)
            await offsets(a.client, stage.group, topic)
            await a.end(commit, NEW)
            await offsets(a.client, stage.group, topic)


@scenario
async def group_is_not_in_the_transaction(stage: Stage) -> None:
    """Before version 5 the group has to be added first."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for version in OF_OLD_PROTOCOL:
        await a.commit_refused(stage.group, topic, {0: 1}, version)
    await a.open(topic)
    for version in OF_OLD_PROTOCOL:
        await a.commit_refused(stage.group, topic, {0: 1}, version)
    await covered(a)
    await a.end(True)
    await look(a.client, stage.group)


@scenario
async def by_strangers(stage: Stage) -> None:
    """An unknown transactional id, another producer id, other epochs, the empty id."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.init()
    for version in EVERY_VERSION:
        for values in (
            {"transactional_id": f"none{stage.suffix}"},
            {"transactional_id": ""},
            {"producer_id": NOBODY},
            {"producer_epoch": 0},
            {"producer_epoch": 7},
        ):
            await a.commit_offsets(stage.group, topic, {0: 1}, version, **values)
    await covered(a)


@scenario
async def by_the_epoch_before_the_end(stage: Stage) -> None:
    """The epoch that an end has bumped is fenced in every version."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open_new(topic)
    await a.close(True, NEW)
    for version in EVERY_VERSION:
        await a.commit_offsets(stage.group, topic, {0: 1}, version, producer_epoch=0)


@scenario
async def after_the_end(stage: Stage) -> None:
    """Once the transaction has ended, the group is in none."""
    topic = await stage.create_topic()
    for commit in (True, False):
        a = await joined(stage, f"commit {commit}")
        await a.commit_offsets(stage.group, topic, {0: 1})
        await a.end(commit)
        for version in OF_OLD_PROTOCOL:
            await a.commit_refused(stage.group, topic, {0: 2}, version)


@scenario
async def unknown_partitions(stage: Stage) -> None:
    """Unknown topics and partitions are told one by one; the others are stored."""
    topic = await stage.create_topic()
    none = stage.topic_named("none")
    a = await joined(stage)
    for version in EVERY_VERSION:
        await a.commit_offsets(stage.group, none, {0: 1}, version)
        await a.commit_offsets(stage.group, topic, {5: 1, 0: version, -1: 1}, version)
    await a.end(True)
    await offsets(a.client, stage.group, topic)


@scenario
async def topic_ids(stage: Stage) -> None:
    """Each unknown id, also the zero id, gets an error; offsets of the other topics are stored."""
    topic = await stage.create_topic(partitions=2)
    a = await producer(stage)
    known = await topic_id(a.client, topic)
    for topics in (
        [by_id(NO_TOPIC, 1, 0, 1)],
        [by_id(None, 1)],
        [by_id(NO_TOPIC, 1), by_id(known, 2, 0, 1, 7), by_id(None, 3)],
        [by_id(known, 4), by_id(known, 5, 1)],
        [by_id(known, 6, 1, 1)],
        [],
    ):
        await a.commit_offsets(stage.group, topic, {}, BY_ID, topics=topics)
        await covered(a)
    await a.end(True, NEW)
    await offsets(a.client, stage.group, topic, 0, 1)


@scenario
async def id_of_a_deleted_topic(stage: Stage) -> None:
    """The id of a topic that was deleted is unknown, also once there is another of its name."""
    topic = await stage.create_topic()
    a = await producer(stage)
    known = await topic_id(a.client, topic)
    await stage.delete_topic(topic)
    await a.commit_offsets(stage.group, topic, {}, BY_ID, topics=[by_id(known, 1)])
    await stage.create_topic()
    await a.commit_offsets(stage.group, topic, {}, BY_ID, topics=[by_id(known, 1)])
    await a.commit_offsets(stage.group, topic, {0: 2}, BY_ID)
    await a.end(True, NEW)
    await offsets(a.client, stage.group, topic)


@scenario
async def order_of_checks_by_id(stage: Stage) -> None:
    """An unknown id gets its error for any producer and member; a known id gets theirs."""
    topic = await stage.create_topic()
    await stable(stage, "one")
    a = await producer(stage)
    known = await topic_id(a.client, topic)
    for values in (
        {"member_id": "nobody", "generation_id": 1},
        {"member_id": "nobody", "generation_id": -1},
        {"generation_id": 7},
        {"producer_epoch": 7},
        {"producer_id": NOBODY},
        {"transactional_id": ""},
        {"group_id": ""},
        {"group_id": "", "member_id": "nobody", "generation_id": 1},
    ):
        for topics in ([by_id(NO_TOPIC, 1)], [by_id(NO_TOPIC, 1), by_id(known, 2, 0, 9)]):
            await a.commit_offsets(stage.group, topic, {}, BY_ID, topics=topics, **values)


@scenario
async def no_partitions(stage: Stage) -> None:
    """No topics, and a topic without partitions."""
    topic = await stage.create_topic()
    a = await joined(stage)
    for version in (0, 3, 4, 5, 6):
        await a.commit_offsets(stage.group, topic, {}, version)
        await a.commit_offsets(stage.group, topic, {}, version, topics=[])
    await a.end(True)


@scenario
async def metadata(stage: Stage) -> None:
    """Metadata is kept, null too; above 4096 bytes it is refused."""
    topic = await stage.create_topic(partitions=3)
    a = await joined(stage)
    given: Sequence[str | None] = ("said", None, "m" * 4_097)
    partitions = [
        {"partition_index": one, "committed_offset": 5, "committed_metadata": text}
        for one, text in enumerate(given)
    ]
    await a.commit_offsets(
        stage.group, topic, {}, topics=[{"name": topic, "partitions": partitions}]
    )
    await a.end(True)
    await offsets(a.client, stage.group, topic, 0, 1, 2)


@scenario
async def odd_offsets(stage: Stage) -> None:
    """Offsets are not looked at; the leader epoch is kept."""
    topic = await stage.create_topic(partitions=3)
    a = await joined(stage)
    partitions = [
        {"partition_index": one, "committed_offset": offset, "committed_leader_epoch": epoch}
        for one, (offset, epoch) in enumerate(((-1, -1), (2**63 - 1, 7), (0, -2)))
    ]
    listed = [{**one, "committed_metadata": ""} for one in partitions]
    await a.commit_offsets(stage.group, topic, {}, topics=[{"name": topic, "partitions": listed}])
    await a.end(True)
    await offsets(a.client, stage.group, topic, 0, 1, 2)


@scenario
async def empty_group_id(stage: Stage) -> None:
    """The empty group has no offsets in transactions."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for version in EVERY_VERSION:
        await a.commit_offsets("", topic, {0: 1}, version)
    await covered(a)


@scenario
async def members_of_a_group(stage: Stage) -> None:
    """From version 3 on generation and member are those of the group."""
    topic = await stage.create_topic()
    [one] = await stable(stage, "one")
    a = await joined(stage)

    async def commit(version: int, **values: Any) -> None:
        await a.commit_offsets(stage.group, topic, {0: version}, version, **values)

    mine = {"generation_id": one.generation, "member_id": one.id}
    for version in WITH_MEMBERS:
        await commit(version, **mine)
        await commit(version, **{**mine, "generation_id": one.generation + 1})
        await commit(version, **{**mine, "generation_id": one.generation - 1})
        await commit(version, **{**mine, "member_id": "nobody"})
        await commit(version, **{**mine, "member_id": ""})
        await commit(version, **{**mine, "generation_id": -1})
        await commit(version, **{**mine, "group_instance_id": "i"})
        await commit(version, generation_id=-1, member_id="nobody")
        await commit(version)
    await commit(0)
    await a.end(True)
    await offsets(a.client, stage.group, topic)


@scenario
async def static_members_of_a_group(stage: Stage) -> None:
    """An instance id has to be the member's."""
    topic = await stage.create_topic()
    one, two = await static_group(stage, "one", "two")
    a = await joined(stage)
    for version in WITH_MEMBERS:
        for member_id, instance in (
            (one.id, "i-one"),
            (two.id, "i-one"),
            ("nobody", "i-one"),
            (one.id, "nobody"),
            (one.id, None),
        ):
            await a.commit_offsets(
                stage.group,
                topic,
                {0: version},
                version,
                generation_id=one.generation,
                member_id=member_id,
                group_instance_id=instance,
            )
    await a.end(False)


@scenario
async def unknown_group_of_a_member(stage: Stage) -> None:
    """A group that does not exist has no generations; the new protocol begins all the same."""
    topic = await stage.create_topic()
    for version in WITH_MEMBERS:
        group = stage.group_named(f"v{version}")
        a = await joined(stage, f"v{version}", group)
        for generation, member_id in ((1, "nobody"), (0, ""), (-1, "nobody")):
            await a.commit_offsets(
                group, topic, {0: 1}, version, generation_id=generation, member_id=member_id
            )
        await covered(a)
        await a.end(False)


@scenario
async def refused_members_begin_a_transaction(stage: Stage) -> None:
    """By the new protocol the group is in the transaction before its members are looked at."""
    topic = await stage.create_topic()
    await stable(stage, "one")
    a = await producer(stage)
    await a.commit_offsets(stage.group, topic, {0: 1}, NEW, generation_id=7, member_id="nobody")
    await covered(a)
    await a.end(True, NEW)


@scenario
async def between_join_and_sync(stage: Stage) -> None:
    """A member whose generation has no assignments yet."""
    topic = await stage.create_topic()
    one = await member(stage, "one")
    await gather_round([one])
    a = await joined(stage)
    for version in WITH_MEMBERS:
        mine = {"generation_id": one.generation, "member_id": one.id}
        await a.commit_offsets(stage.group, topic, {0: version}, version, **mine)
        await a.commit_offsets(stage.group, topic, {0: version}, version)
    await a.end(False)


@scenario
async def pending_in_every_version(stage: Stage) -> None:
    """OffsetFetch: pending offsets are hidden, and unstable for who asks for stable ones."""
    topic = await stage.create_topic(partitions=2)
    a = await joined(stage)
    one = await member(stage, "one")
    await one.commit(topic, {0: 3}, 8)
    await a.commit_offsets(stage.group, topic, {0: 5})
    asked = [{"name": topic, "partition_indexes": [0, 1]}]
    for version in range(1, 8):
        for stable_only in (False, True) if version == 7 else (False,):
            await a.client.ask(
                "OffsetFetch",
                version,
                group_id=stage.group,
                topics=asked,
                require_stable=stable_only,
            )
    for version in (8, 9):
        for stable_only in (False, True):
            for topics in (asked, None):
                await a.client.ask(
                    "OffsetFetch",
                    version,
                    groups=[{"group_id": stage.group, "topics": topics}],
                    require_stable=stable_only,
                )
    await a.end(True)


@scenario
async def all_pending(stage: Stage) -> None:
    """OffsetFetch of all partitions of a group that has pending offsets only."""
    topic = await stage.create_topic()
    a = await joined(stage)
    await a.commit_offsets(stage.group, topic, {0: 5})
    for version in (2, 5, 7):
        for stable_only in (False, True) if version == 7 else (False,):
            await a.client.ask(
                "OffsetFetch",
                version,
                group_id=stage.group,
                topics=None,
                require_stable=stable_only,
            )
    await a.end(True)
    await offsets(a.client, stage.group, topic)


@scenario
async def aborted(stage: Stage) -> None:
    """After an abort the offset of before is stable again."""
    topic = await stage.create_topic()
    one = await member(stage, "one")
    await one.commit(topic, {0: 3}, 8)
    for version in (OLD, NEW):
        a = await joined(stage, f"v{version}")
        await a.commit_offsets(stage.group, topic, {0: 9})
        await offsets(a.client, stage.group, topic)
        await a.end(False, version)
        await offsets(a.client, stage.group, topic)


@scenario
async def last_of_a_transaction(stage: Stage) -> None:
    """The last offset of a transaction counts, a lower one too."""
    topic = await stage.create_topic()
    a = await joined(stage)
    for offset in (5, 9, 2):
        await a.commit_offsets(stage.group, topic, {0: offset})
    await a.end(True)
    await offsets(a.client, stage.group, topic)


@scenario
async def several_transactions(stage: Stage) -> None:
    """Of two transactions the offset counts that was written last, not the one committed last."""
    topic = await stage.create_topic(partitions=2)
    a, b = await joined(stage), await joined(stage, "b")
    await a.commit_offsets(stage.group, topic, {0: 1, 1: 1})
    await b.commit_offsets(stage.group, topic, {0: 2})
    await b.end(True)
    await offsets(a.client, stage.group, topic, 0, 1)
    await a.end(True)
    await offsets(a.client, stage.group, topic, 0, 1)


@scenario
async def plain_commit_meanwhile(stage: Stage) -> None:
    """A plain commit after the transactional one outlives it."""
    topic = await stage.create_topic()
    a = await joined(stage)
    one = await member(stage, "one")
    await a.commit_offsets(stage.group, topic, {0: 5})
    await one.commit(topic, {0: 3}, 8)
    await offsets(a.client, stage.group, topic)
    await a.end(True)
    await offsets(a.client, stage.group, topic)


@scenario
async def offsets_are_deleted_meanwhile(stage: Stage) -> None:
    """OffsetDelete drops pending offsets too."""
    topic = await stage.create_topic()
    a = await joined(stage)
    one = await member(stage, "one")
    await one.commit(topic, {0: 3}, 8)
    await a.commit_offsets(stage.group, topic, {0: 5})
    gone = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    await a.client.ask("OffsetDelete", 0, group_id=stage.group, topics=gone)
    await offsets(a.client, stage.group, topic)
    await a.end(True)
    await offsets(a.client, stage.group, topic)


@scenario
async def group_is_deleted_meanwhile(stage: Stage) -> None:
    """DeleteGroups drops pending offsets too."""
    topic = await stage.create_topic()
    a = await joined(stage)
    one = await member(stage, "one")
    await one.commit(topic, {0: 3}, 8)
    await a.commit_offsets(stage.group, topic, {0: 5})
    await a.client.ask("DeleteGroups", 2, groups_names=[stage.group])
    await look(a.client, stage.group)
    await a.end(True)
    await look(a.client, stage.group)
    await offsets(a.client, stage.group, topic)


@scenario
async def group_of_pending_offsets(stage: Stage) -> None:
    """A group exists with its first pending offset, and stays when that is aborted."""
    topic = await stage.create_topic()
    for commit in (True, False):
        a = await producer(stage, f"commit {commit}")
        group = stage.group_named(f"commit-{commit}")
        await a.commit_offsets(group, topic, {0: 1}, NEW)
        await look(a.client, group, 5)
        await look(a.client, group, 6)
        await a.end(commit, NEW)
        await look(a.client, group, 6)
        await a.client.ask("DeleteGroups", 2, groups_names=[group])


@scenario
async def by_a_second_producer_of_the_id(stage: Stage) -> None:
    """The first one's pending offsets are aborted with its transaction."""
    topic = await stage.create_topic()
    a = await joined(stage)
    await a.commit_offsets(stage.group, topic, {0: 5})
    b = await newcomer(stage, "b", "a")
    await b.init()
    await offsets(b.client, stage.group, topic)
    await a.commit_offsets(stage.group, topic, {0: 6})
    await b.commit_offsets(stage.group, topic, {0: 7}, NEW)
    await b.end(True, NEW)
    await offsets(b.client, stage.group, topic)
