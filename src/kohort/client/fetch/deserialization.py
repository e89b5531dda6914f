"""Deserializes the records of a batch before the application gets it."""

from kohort.client.fetch.batch import Batch
from kohort.client.serialization import Deserializers, Wait, at_once
from kohort.util.time_slice import TimeSlices


async def deserialize(batch: Batch, deserializers: Deserializers, wait: Wait = at_once) -> None:
    """Deserialize all records of the batch.

    On an event loop others have their turns meanwhile. With another `wait` there is none.
    """
    records, damage = batch.readable()
    slices = TimeSlices()
    found = []
    for record in records:
        found.append(await deserializers.deserialize(record, wait))
        if wait is at_once:
            await slices.give_way()
    batch.replace_records(found, damage)
