"""The undo log of metadata changes."""

from uuid import UUID

import pytest

from kohort.server.config import ResourceType
from kohort.server.metadata import ConfigRecord, MetadataImage, RemoveTopicRecord, TopicRecord
from kohort.server.metadata import records_of as image_records
from kohort.server.metadata_log.pending_changes import PendingChanges


def topic(number: int, partitions: int = 1, name: str = "") -> TopicRecord:
    name = name or f"t{number}"
    return TopicRecord(id=UUID(int=number), name=name, partitions=partitions, configs={})


def of_broker(value: str) -> ConfigRecord:
    return ConfigRecord(ResourceType.BROKER, "0", {"log.retention.ms": value})


def test_undone_changes_leave_the_image_of_the_last_settled_one() -> None:
    image = MetadataImage()
    changes = PendingChanges(image)
    changes.apply([topic(1), of_broker("1")])
    changes.mark_durable(1)
    before = [*image_records(image)]
    changes.apply([topic(2), topic(1, partitions=3)])
    changes.apply([RemoveTopicRecord(UUID(int=1)), topic(3, name="t1"), of_broker("2")])
    assert [*image_records(image)] != before
    assert set(changes.undo(OSError("full"))) == {UUID(int=number) for number in (1, 2, 3)}
    assert [*image_records(image)] == before
    assert (changes.last, changes.last_finished, changes.first) == (3, 3, None)


async def test_waiting_for_an_undone_change_raises_its_error() -> None:
    changes = PendingChanges(MetadataImage())

    async def settle_one() -> None:
        changes.mark_durable(changes.last_finished + 1)

    async def fail() -> None:
        changes.undo(OSError("full"))

    changes.apply([topic(1)])
    changes.apply([topic(2)])
    await changes.await_durable(None, settle_one)
    changes.apply([topic(3)])
    with pytest.raises(OSError, match="full"):
        await changes.await_durable(None, fail)
    with pytest.raises(OSError, match="full"):
        await changes.await_durable(3, fail)
    await changes.await_durable(2, fail)
    await changes.await_durable(None, fail)  # nothing was changed since
