"""OffsetCommit and OffsetFetch by topic id, while topics are recreated under a request."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from kohort.client.config import GroupConfig
from kohort.client.group.offset_requests import commit_offsets, fetch_offsets
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

ORDERS, RETURNS = UUID(int=1), UUID(int=2)
CONFIG = GroupConfig(group_id="g", topics=["orders"])
TP = TopicPartition("orders", 0)


class Connection:
    """Answers once; `meanwhile` happens before."""

    def __init__(self, answer, meanwhile):
        self._answer = answer
        self._meanwhile = meanwhile

    def version(self, api):
        return 10

    async def send(self, api, **fields):
        self._meanwhile()
        return self._answer


def topics(*ids):
    partition = SimpleNamespace(
        partition_index=0,
        error_code=ErrorCode.none,
        committed_offset=7,
        committed_leader_epoch=1,
        metadata="",
    )
    return [SimpleNamespace(topic_id=each, partitions=[partition]) for each in ids]


async def test_a_commit_is_told_although_its_topic_was_forgotten_meanwhile():
    ids = {"orders": ORDERS}
    connection = Connection(SimpleNamespace(topics=topics(ORDERS)), ids.clear)
    offsets = {TP: OffsetAndMetadata(offset=7)}
    told = await commit_offsets(
        connection, CONFIG, offsets, generation=1, member_id="m", topic_ids=ids
    )
    assert told == {TP: ErrorCode.none}


async def test_offsets_are_told_although_their_topic_was_made_anew_meanwhile():
    ids = {"orders": ORDERS}
    group = SimpleNamespace(error_code=ErrorCode.none, topics=topics(ORDERS))
    connection = Connection(SimpleNamespace(groups=[group]), lambda: ids.update(orders=RETURNS))
    found = await fetch_offsets(connection, CONFIG, [TP], ids)
    assert found == {TP: OffsetAndMetadata(offset=7, leader_epoch=1)}


@pytest.mark.parametrize("told", [(), (RETURNS,)])
async def test_a_partition_missing_in_the_response_is_an_error_and_not_uncommitted(told):
    group = SimpleNamespace(error_code=ErrorCode.none, topics=topics(*told))
    connection = Connection(SimpleNamespace(groups=[group]), lambda: None)
    with pytest.raises(KafkaError, match="leaves out orders-0"):
        await fetch_offsets(connection, CONFIG, [TP], {"orders": ORDERS})
