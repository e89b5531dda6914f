"""Offsets that nobody waits for: none is forgotten, and none overtakes a newer one."""

import asyncio

import pytest

from kohort.client.group.marked_commits import MarkedCommits
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group_errors import CommitError, GenerationEndedError
from kohort.client.membership.events import End
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

FIVE, TEN = OffsetAndMetadata(offset=5), OffsetAndMetadata(offset=10)


class Committer:
    """Shows what it is asked for, and answers when it is told to."""

    def __init__(self):
        self.asked = []
        self.answers = asyncio.Queue()

    async def commit(self, offsets):
        self.asked.append(
            {owned.partition.partition: offset.offset for owned, offset in offsets.items()}
        )
        if (error := await self.answers.get()) is not None:
            raise error


class Setting:
    def __init__(self):
        self.committer = Committer()
        self.marked = MarkedCommits(self.committer)
        self.one, self.other = (
            OwnedPartition(TopicPartition("orders", index), lambda _: None, lambda: None)
            for index in range(2)
        )

    def refusal(self):
        return CommitError({self.other.partition: KafkaError(ErrorCode.offset_metadata_too_large)})

    async def under_way(self):
        task = asyncio.ensure_future(self.marked.commit())
        await asyncio.sleep(0)
        return task


async def test_the_latest_of_a_partition_is_sent_once():
    at = Setting()
    at.marked.mark({at.one: FIVE})
    at.marked.mark({at.one: TEN})
    at.committer.answers.put_nowait(None)
    await at.marked.commit()
    await at.marked.commit()
    assert at.committer.asked == [{0: 10}]


async def test_failed_offsets_are_sent_with_the_next_commit():
    at = Setting()
    at.marked.mark({at.other: FIVE})
    at.committer.answers.put_nowait(at.refusal())
    with pytest.raises(CommitError):
        await at.marked.commit()
    at.committer.answers.put_nowait(None)
    await at.marked.commit()
    assert at.committer.asked == [{1: 5}, {1: 5}]


async def test_failed_offsets_do_not_replace_a_newer_marked_offset():
    at = Setting()
    at.marked.mark({at.one: FIVE})
    task = await at.under_way()
    at.marked.mark({at.one: TEN})
    at.committer.answers.put_nowait(at.refusal())
    with pytest.raises(CommitError):
        await task
    at.committer.answers.put_nowait(None)
    await at.marked.commit()
    assert at.committer.asked[-1] == {0: 10}


async def test_failed_offsets_do_not_replace_a_newer_awaited_offset():
    at = Setting()
    at.marked.mark({at.one: FIVE, at.other: FIVE})
    task = await at.under_way()
    at.marked.forget([at.one])  # somebody commits offset 10, and waits for that
    at.committer.answers.put_nowait(at.refusal())
    with pytest.raises(CommitError):
        await task
    at.committer.answers.put_nowait(None)
    await at.marked.commit()
    assert at.committer.asked[-1] == {1: 5}


async def test_offsets_of_a_cancelled_commit_are_sent_again():
    at = Setting()
    at.marked.mark({at.one: FIVE})
    task = await at.under_way()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    at.committer.answers.put_nowait(None)
    await at.marked.commit()
    assert at.committer.asked == [{0: 5}, {0: 5}]


async def test_offsets_of_an_ended_partition_are_neither_marked_nor_sent():
    at = Setting()
    at.marked.mark({at.one: FIVE, at.other: FIVE})
    at.one.ending.begin(End.LOST, "fenced")
    with pytest.raises(GenerationEndedError):
        at.marked.mark({at.one: TEN})
    assert not at.marked.concern([at.one])
    assert at.marked.concern([at.one, at.other])
    at.committer.answers.put_nowait(None)
    await at.marked.commit()
    assert at.committer.asked == [{1: 5}]
