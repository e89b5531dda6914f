"""First unread records: offset and timestamp of the record that a consumer gets from an offset on.

Leaders are asked by Fetch, without a session. A request has many partitions with little room for
each: brokers respond at least one batch for the first partition with records, and leave out others
whose batch is larger (KIP-74). Those are requested one by one then, and at most `MAX_SINGLE` of
them by leader.

Control batches, and aborted ones for readers of committed records, are no records. A transaction
may have aborted more than one response holds: such a partition is read on, `MAX_READS` times.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final
from uuid import UUID

from kohort.client.cluster import NO_ID, Cluster, Isolation, Leader, send_to_leaders
from kohort.client.fetch import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchRequest,
    FetchSettings,
    PartitionResponse,
    RequestedPartition,
    error_code,
    fetch,
)
from kohort.client.net import Connection
from kohort.errors import KafkaError
from kohort.protocol.aborted_transactions import AbortedTransactions
from kohort.protocol.batch_format import Header, iterate
from kohort.protocol.batches import decode_records
from kohort.protocol.compression import Buffer
from kohort.types import TopicPartition

PARTITIONS_PER_REQUEST: Final = 100
PARTITION_BYTES: Final = 16 * 1024
"""Room for a partition beside others: batches of producers with the default `batch.size`."""
REQUEST_BYTES: Final = 4 * 1024 * 1024
MAX_SINGLE: Final = 200
"""Requests of one partition to each leader, at most."""
MAX_READS: Final = 3
"""Requests of one partition, one after the other, at most."""


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """What Fetch found from an offset on."""

    offset: int | None
    """Offset of the first record; None: there is none below `searched_to`."""
    timestamp: int
    """Its timestamp in ms; -1 without a record, or if it has none."""
    searched_to: int
    """Offsets below it were looked at."""
    is_transactional: bool = False
    """Whether one of the batches belongs to a transaction."""


async def first_records(
    cluster: Cluster,
    positions: Mapping[TopicPartition, tuple[int, int]],
    isolation: Isolation,
    *,
    timeout_ms: int,
) -> dict[TopicPartition, FirstRecord]:
    """The first record of each partition between its (position, end of the log).

    Partitions without an answer after `timeout_ms` are left out, and those whose records may not be
    read (TOPIC_AUTHORIZATION_FAILED) or cannot be.
    """
    found: dict[TopicPartition, FirstRecord] = {}
    topics = (await cluster.metadata({tp.topic for tp in positions})).topics
    ids = {name: topic.id or NO_ID for name, topic in topics.items()}

    async def send(
        node_id: int, _kind: None, leaders: Mapping[TopicPartition, Leader]
    ) -> Mapping[TopicPartition, None]:
        search = _LeaderSearch(await cluster.connection(node_id), isolation, found)
        await search.run(
            [
                _Search(tp, positions[tp], leader, ids.get(tp.topic, NO_ID))
                for tp, leader in leaders.items()
                if tp not in found
            ]
        )
        return dict.fromkeys(leaders)

    await send_to_leaders(
        cluster,
        dict.fromkeys(positions),
        send,
        operation="fetch first unread records",
        timeout_ms=timeout_ms,
    )
    return found


class _Search:
    """The search for the first record of one partition."""

    __slots__ = ("_end", "_found", "_position", "leader", "reads", "topic_id", "tp")

    def __init__(
        self, tp: TopicPartition, bounds: tuple[int, int], leader: Leader, topic_id: UUID
    ) -> None:
        self.tp, self.leader = tp, leader
        self.topic_id = None if topic_id == NO_ID else topic_id
        self._position, self._end = bounds
        self._found = FirstRecord(None, -1, self._position)
        self.reads = 0

    def request(self, max_bytes: int) -> RequestedPartition:
        return RequestedPartition(
            self.topic_id, self._found.searched_to, self.leader.epoch, max_bytes
        )

    def read(
        self, response: PartitionResponse, isolation: Isolation, *, alone: bool
    ) -> FirstRecord | None:
        """The result if there is one now. Raises KafkaError for an error of the response.

        `alone`: no other partition was in the request, so that there was room for a batch.
        """
        if response.error:
            raise KafkaError(error_code(response.error), str(self.tp))
        committed_only = isolation == "read_committed"
        since = self._found.searched_to
        found = first_record(response.records, since, response.aborted if committed_only else ())
        searched_to = found.searched_to
        if alone and not response.records:  # compaction removed all records behind
            searched_to = max(
                since,
                response.last_stable_offset if committed_only else response.high_watermark,
            )
        self._found = FirstRecord(
            found.offset,
            found.timestamp,
            searched_to,
            found.is_transactional or self._found.is_transactional,
        )
        has_ended = found.offset is not None or searched_to >= self._end
        return self._found if has_ended else None


class _LeaderSearch:
    """Requests to one leader, one after the other."""

    def __init__(
        self,
        connection: Connection,
        isolation: Isolation,
        found: dict[TopicPartition, FirstRecord],
    ) -> None:
        self._connection, self._isolation, self._found = connection, isolation, found

    async def run(self, searches: Iterable[_Search]) -> None:
        """Search all partitions; results are in `found` as soon as they are known."""
        pending: deque[_Search] = deque()
        remaining = iter(searches)
        while together := list(islice(remaining, PARTITIONS_PER_REQUEST)):
            pending += await self._request(together, PARTITION_BYTES)
        for _ in range(MAX_SINGLE):
            if not pending:
                return
            search = pending.popleft()
            search.reads += 1
            unfinished = await self._request([search], REQUEST_BYTES)
            pending += [search for search in unfinished if search.reads < MAX_READS]

    async def _request(self, searches: list[_Search], room: int) -> list[_Search]:
        """One request; returns the searches that have to go on."""
        by_id = all(search.topic_id is not None for search in searches)
        changed = {search.tp: search.request(room) for search in searches}
        response = await fetch(
            self._connection,
            FetchRequest(NO_SESSION, FINAL_EPOCH, changed, {}),
            _settings(self._isolation),
            by_id=by_id,
        )
        if response.error:
            raise KafkaError(error_code(response.error), "fetch of first unread records")
        by_partition = {(part.topic, part.partition): part for part in response.partitions}
        unfinished = []
        for search in searches:
            part = by_partition.get((search.tp.topic, search.tp.partition)) or by_partition.get(
                (search.topic_id or search.tp.topic, search.tp.partition)
            )
            if part is not None and not self._is_finished(search, part, alone=len(searches) == 1):
                unfinished.append(search)
        return unfinished

    def _is_finished(self, search: _Search, part: PartitionResponse, *, alone: bool) -> bool:
        try:
            found = search.read(part, self._isolation, alone=alone)
        except KafkaError:  # the partition's leader moved, or its records may not be read
            return True
        if found is not None:
            self._found[search.tp] = found
        return found is not None


def _settings(isolation: Isolation) -> FetchSettings:
    return FetchSettings(
        isolation=isolation,
        min_bytes=0,
        max_bytes=REQUEST_BYTES,
        max_wait_ms=0,
        partition_bytes=PARTITION_BYTES,
        check_crcs=False,
    )


def first_record(
    data: Buffer, position: int, aborted: Iterable[tuple[int, int]] = ()
) -> FirstRecord:
    """The first record from `position` on in the batches of a Fetch response.

    Raises KafkaError for bytes that are no batches.
    """
    searched_to, is_transactional = position, False
    transactions = AbortedTransactions(aborted)
    for start, header in iterate(data):
        excluded = transactions.excludes(
            header.attributes, header.producer_id, header.last_offset, data, start
        )
        if header.last_offset < position:
            continue
        is_transactional = is_transactional or header.is_transactional
        if not excluded:
            for offset, timestamp in _records(data, start, header, position):
                return FirstRecord(offset, timestamp, offset + 1, is_transactional)
        searched_to = header.last_offset + 1
    return FirstRecord(None, -1, searched_to, is_transactional)


def _records(data: Buffer, start: int, header: Header, position: int) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of the batch's records from `position` on."""
    is_whole = header.record_count == header.last_offset_delta + 1
    if is_whole and header.base_offset >= position and header.delete_horizon is None:
        # The header has all of the first record: nothing is decompressed.
        timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp
        yield header.base_offset, timestamp
        return
    for record in decode_records(data, start):
        if record.offset >= position:
            yield record.offset, record.timestamp
