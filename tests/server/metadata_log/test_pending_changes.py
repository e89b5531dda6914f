"""The undo log of metadata changes."""

from uuid import UUID

import pytest

from kohort.server.config import ResourceType
from kohort.server.metadata import ConfigsRecord, MetadataImage, TopicDeleted, TopicRecord
from kohort.server.metadata import records_of as image_records
from kohort.server.metadata_log.pending_changes import PendingChanges


def topic(number: int, partitions: int = 1, name: str = "") -> TopicRecord:
    name = name or f"t{number}"
    return TopicRecord(id=UUID(int=number), name=name, partitions=partitions, configs={})


def of_broker(value: str) -> ConfigsRecord:
    return ConfigsRecord(ResourceType.BROKER, "0", {"log.retention.ms": value})


def test_undone_changes_leave_the_image_of_the_last_settled_one() -> None:
    image = MetadataImage()
    changes = PendingChanges(image)
    changes.make([topic(1), of_broker("1")])
    changes.settle(1)
    before = [*image_records(image)]
    changes.make([topic(2), topic(1, partitions=3)])
    changes.make([TopicDeleted(UUID(int=1)), topic(3, name="t1"), of_broker("2")])
    assert [*image_records(image)] != before
    assert set(changes.undo(OSError("full"))) == {UUID(int=number) for number in (1, 2, 3)}
    assert [*image_records(image)] == before
    assert (changes.last, changes.settled, changes.first) == (3, 3, None)


async def test_waiting_for_an_undone_change_raises_its_error() -> None:
    changes = PendingChanges(MetadataImage())

    async def settle_one() -> None:
        changes.settle(changes.settled + 1)

    async def fail() -> None:
        changes.undo(OSError("full"))

    changes.make([topic(1)])
    changes.make([topic(2)])
    await changes.kept(None, settle_one)
    changes.make([topic(3)])
    with pytest.raises(OSError, match="full"):
        await changes.kept(None, fail)
    with pytest.raises(OSError, match="full"):
        await changes.kept(3, fail)
    await changes.kept(2, fail)
    await changes.kept(None, fail)  # nothing was changed since
