"""Deserializes the records of a batch before the application gets it."""

from kohort.client.fetch.batch import Batch
from kohort.client.serialization import Deserializers, Wait, at_once
from kohort.util.time_slice import TimeSlices


async def deserialize(batch: Batch, deserializers: Deserializers, wait: Wait = at_once) -> None:
    """Deserialize all records of the batch.

    On an event loop other tasks run meanwhile. With another `wait` there is no event loop.
    """
    records, damage = batch.readable()
    slices = TimeSlices()
    deserialized = []
    for record in records:
        deserialized.append(await deserializers.deserialize(record, wait))
        if wait is at_once:
            await slices.give_way()
    batch.replace_records(deserialized, damage)
