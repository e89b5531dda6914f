"""The batches of a partition, until the member gives the partition up."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

from kohort.client.errors import UNKNOWN_TOPIC, GaveUpError, TopicRecreatedError
from kohort.client.fetch import Batch, Fetcher, deserialize
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.serialization import Deserializers
from kohort.errors import KafkaError, KohortError

OnGone: TypeAlias = Callable[[OwnedPartition, KohortError], None]
WAIT_MS: Final = 1_000
"""Time limit of one wait for the fetcher."""


async def stream(
    fetcher: Fetcher,
    owned: OwnedPartition,
    on_gone: OnGone,
    on_passed: Callable[[OwnedPartition], None],
    deserializers: Deserializers | None = None,
) -> AsyncIterator[Batch]:
    """Batches until the partition begins to end; those fetched ahead are left to its next owner.

    While a batch is deserialized or in work, `owned.busy_since` is set; `on_passed` is called when
    the next one is requested. Raises the fetcher's errors, and KohortError if another task reads
    the partition. An error that says that the topic is gone goes to `on_gone` instead, and ends the
    stream.
    """
    loop = asyncio.get_running_loop()
    _validate_only_reader(owned)
    began = loop.create_task(owned.ending.began.wait())
    owned.reader = asyncio.current_task(), began
    try:
        while owned.ending.end is None:
            try:
                batch = await _next(fetcher, owned, began)
            except (TopicRecreatedError, GaveUpError, KafkaError) as error:
                if not _is_gone(error):
                    raise
                on_gone(owned, error)
                await asyncio.wait((began,), timeout=WAIT_MS / 1_000)
                continue
            if batch is None:
                continue
            owned.busy_since = loop.time()
            owned.busy_with = f"the batch before offset {batch.next_offset}"
            if deserializers is not None and not await _deserialize(
                fetcher, owned, began, batch, deserializers
            ):
                owned.busy_since = None
                continue
            owned.last_offset, owned.last_epoch = batch.next_offset, batch.leader_epoch
            yield batch
            owned.busy_since = None
            on_passed(owned)
    finally:
        # A stream that was left by `break` ends later than the next one of its task begins.
        if owned.reader[1] is began:
            owned.reader, owned.busy_since = (None, None), None
        began.cancel()


def _validate_only_reader(owned: OwnedPartition) -> None:
    reader, _ = owned.reader
    if reader is not None and reader is not asyncio.current_task() and not reader.done():
        raise KohortError(
            f"{owned.partition} is read by the task {reader.get_name()!r} already: each batch goes "
            "to one reader only. Read it in one task, and pass on what others need"
        )


def _is_gone(error: TopicRecreatedError | GaveUpError | KafkaError) -> bool:
    return isinstance(error, TopicRecreatedError) or error.code in UNKNOWN_TOPIC


async def _next(
    fetcher: Fetcher, owned: OwnedPartition, began: "asyncio.Task[bool]"
) -> Batch | None:
    """The next batch; None if there is none yet, or the partition begins to end."""
    ready = await fetcher.next(owned.partition, max_wait_ms=0)
    if ready is not None or owned.ending.end is not None:
        return ready if owned.ending.end is None else None
    fetching = asyncio.ensure_future(fetcher.wait(owned.partition, max_wait_ms=WAIT_MS))
    try:
        await asyncio.wait((fetching, began), return_when=asyncio.FIRST_COMPLETED)
        if not fetching.done() or owned.ending.end is not None:
            return None
        fetching.result()
        # Does not wait: a batch that was taken must be handed out.
        return await fetcher.next(owned.partition, max_wait_ms=0)
    finally:
        if not fetching.done():
            fetching.cancel()
        elif owned.ending.end is not None and not fetching.cancelled():
            fetching.exception()  # mark it as read


async def _deserialize(
    fetcher: Fetcher,
    owned: OwnedPartition,
    began: "asyncio.Task[bool]",
    batch: Batch,
    deserializers: Deserializers,
) -> bool:
    """Whether the batch is to be handed out.

    Not if the partition begins to end, which does not wait for deserializers, nor if the
    application sought another offset meanwhile.
    """
    sought = owned.sought
    work = asyncio.ensure_future(deserialize(batch, deserializers))
    try:
        await asyncio.wait((work, began), return_when=asyncio.FIRST_COMPLETED)
        if owned.ending.end is not None:
            return False
        work.result()
        return owned.sought == sought
    except BaseException:
        if owned.ending.end is None and owned.sought == sought:
            fetcher.seek(owned.partition, batch.first_offset)  # the batch was not handed out
        raise
    finally:
        work.cancel()
