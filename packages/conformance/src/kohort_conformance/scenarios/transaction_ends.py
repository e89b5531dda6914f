"""EndTxn: commit and abort by the old protocol (v0-4) and the new one (v5), in every state."""

from __future__ import annotations

from kohort_conformance.producers import NEW, OLD, newcomer, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.produce import end as log_end
from kohort_conformance.scenarios.produce import fetched
from kohort_conformance.stage import Stage

EVERY_VERSION = range(6)
OLD_VERSIONS = range(5)
BOTH = (True, False)
NOBODY = 2**60


@scenario
async def every_version(stage: Stage) -> None:
    """A commit and an abort in each version; version 5 gives the next epoch."""
    topic = await stage.create_topic()
    for version in EVERY_VERSION:
        a = await producer(stage, f"v{version}")
        for commit in BOTH:
            await a.open(topic, sequence=0 if commit or version == NEW else 1)
            await a.end(commit, version)
            await a.describe()


@scenario
async def in_empty(stage: Stage) -> None:
    """No transaction has begun: only an abort of version 5 is taken, and bumps the epoch."""
    for version in EVERY_VERSION:
        a = await producer(stage, f"v{version}")
        await a.end(True, version)
        await a.end(False, version)
        await a.describe()


@scenario
async def epoch_before_the_last_in_empty(stage: Stage) -> None:
    """An epoch that InitProducerId has bumped is fenced."""
    a = await producer(stage)
    await a.init()
    for version in EVERY_VERSION:
        for commit in BOTH:
            await a.end(commit, version, producer_epoch=0)


@scenario
async def in_complete(stage: Stage) -> None:
    """By the old protocol an end that is repeated succeeds, the other one is invalid."""
    topic = await stage.create_topic()
    for committed in BOTH:
        a = await producer(stage, f"committed {committed}")
        await a.open(topic)
        await a.close(committed)
        for version in OLD_VERSIONS:
            await a.end(committed, version)
            await a.ending(not committed, version).response()
        await a.describe()


@scenario
async def new_end_in_complete_of_the_old(stage: Stage) -> None:
    """After an end of the old protocol, version 5 aborts what has not begun, at the next epoch."""
    topic = await stage.create_topic()
    for committed in BOTH:
        a = await producer(stage, f"committed {committed}")
        await a.open(topic)
        await a.close(committed)
        await a.end(True, NEW)
        await a.end(False, NEW)
        await a.describe()


@scenario
async def new_end_in_complete(stage: Stage) -> None:
    """The current epoch begins nothing with a commit; with an abort the epoch is bumped."""
    topic = await stage.create_topic()
    for committed in BOTH:
        a = await producer(stage, f"committed {committed}")
        await a.open_new(topic)
        await a.close(committed, NEW)
        await a.end(True, NEW)
        await a.end(False, NEW)
        await a.end(False, NEW)
        await a.describe()


@scenario
async def repeated_new_end(stage: Stage) -> None:
    """The epoch before the bump gets the same response again; the other end is invalid."""
    topic = await stage.create_topic()
    for committed in BOTH:
        a = await producer(stage, f"committed {committed}")
        await a.open_new(topic)
        await a.close(committed, NEW)
        for _ in range(2):
            await a.ending(committed, NEW, producer_epoch=0).response()
            await a.ending(not committed, NEW, producer_epoch=0).response()
        await a.describe()


@scenario
async def old_end_after_a_new_one(stage: Stage) -> None:
    """After version 5, earlier ones judge by the current epoch."""
    topic = await stage.create_topic()
    for committed in BOTH:
        a = await producer(stage, f"committed {committed}")
        await a.open_new(topic)
        await a.close(committed, NEW)
        for version in (1, OLD):
            for commit in BOTH:
                await a.ending(commit, version, producer_epoch=0).response()
                await a.ending(commit, version).response()


@scenario
async def epoch_before_the_last_in_ongoing(stage: Stage) -> None:
    """Once the next transaction is open, the epoch of the one before is fenced."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open_new(topic)
    await a.close(True, NEW)
    await a.open_new(topic)
    for version in EVERY_VERSION:
        for commit in BOTH:
            await a.end(commit, version, producer_epoch=0)
    await a.end(True, NEW)


@scenario
async def after_two_bumps(stage: Stage) -> None:
    """Epochs before the last bump are fenced."""
    topic = await stage.create_topic()
    a = await producer(stage)
    for _ in range(2):
        await a.open_new(topic)
        await a.close(True, NEW)
    for commit in BOTH:
        await a.end(commit, NEW, producer_epoch=0)
        await a.end(commit, NEW, producer_epoch=3)


@scenario
async def by_strangers(stage: Stage) -> None:
    """An unknown transactional id, another producer id, other epochs, the empty id."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open(topic)
    for version in EVERY_VERSION:
        await a.end(True, version, transactional_id=f"none{stage.suffix}")
        await a.end(True, version, producer_id=NOBODY)
        await a.end(True, version, producer_epoch=7)
        await a.end(True, version, producer_epoch=-1)
        await a.end(True, version, transactional_id="")
    await a.end(True)


@scenario
async def retry_by_a_stranger(stage: Stage) -> None:
    """The epoch before the last does not help a producer with another id."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.open_new(topic)
    await a.close(True, NEW)
    await a.ending(True, NEW, producer_id=NOBODY, producer_epoch=0).response()


@scenario
async def old_transaction_ended_by_version_5(stage: Stage) -> None:
    """Partitions added by request, then an end that bumps the epoch: the markers have it."""
    topic = await stage.create_topic()
    for commit in BOTH:
        a = await producer(stage, f"commit {commit}")
        await a.open(topic)
        await a.end(commit, NEW)
        await a.describe()
    await fetched(await stage.client("z"), topic)


@scenario
async def new_transaction_ended_by_version_4(stage: Stage) -> None:
    """Partitions added by writes, then an end that leaves the epoch."""
    topic = await stage.create_topic()
    for commit in BOTH:
        a = await producer(stage, f"commit {commit}")
        await a.open_new(topic)
        await a.end(commit, OLD)
        await a.describe()
    await fetched(await stage.client("z"), topic)


@scenario
async def markers(stage: Stage) -> None:
    """Every partition of a transaction gets one marker, also those without data."""
    topic = await stage.create_topic(partitions=3)
    for version, commit in ((OLD, True), (OLD, False), (NEW, True), (NEW, False)):
        a = await producer(stage, f"v{version} {commit}")
        await a.adding(topic, 1).quiet()
        await a.open(topic, 0, count=2)
        await a.end(commit, version)
    z = await stage.client("z")
    await fetched(z, topic)
    for partition in range(3):
        await log_end(z, topic, partition)


@scenario
async def abort_without_a_transaction_writes_no_markers(stage: Stage) -> None:
    """An abort of version 5 in Empty has no partitions."""
    topic = await stage.create_topic()
    a = await producer(stage)
    await a.end(False, NEW)
    await a.open_new(topic)
    await a.end(True, NEW)
    await fetched(a.client, topic)


@scenario
async def topic_is_deleted(stage: Stage) -> None:
    """A transaction ends although a topic of it is gone."""
    topic = await stage.create_topic()
    other = await stage.create_topic("other")
    a = await producer(stage)
    await a.open(topic)
    await a.open(other)
    await stage.delete_topic(topic)
    await a.end(True)
    await a.describe()
    await fetched(a.client, other)


@scenario
async def one_id_after_the_other(stage: Stage) -> None:
    """A second producer of the id aborts the first one's transaction; the first cannot end it."""
    topic = await stage.create_topic()
    for version in (OLD, NEW):
        a = await producer(stage, f"a{version}")
        await a.open(topic)
        b = await newcomer(stage, f"b{version}", f"a{version}")
        await b.init()
        for commit in BOTH:
            await a.end(commit, version)
        await b.open(topic)
        await b.end(True, version)


@scenario(waits=12)
async def timed_out(stage: Stage) -> None:
    """A transaction that outlives its timeout is aborted at the next epoch."""
    topic = await stage.create_topic()
    late = {
        version: await producer(stage, f"v{version}", transaction_timeout=1_000)
        for version in (OLD, NEW)
    }
    for a in late.values():
        await a.open(topic)
    for version, a in late.items():
        await a.until("CompleteAbort", 25)
        await a.describe()
        await a.write(topic, a.batch(1))
        await a.add(topic)
        await a.add_offsets(stage.group)
        await a.commit_offsets(stage.group, topic, {0: 1})
        for commit in BOTH:
            await a.ending(commit, version).response()
        await a.init_again()
