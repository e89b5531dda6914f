"""Selects the committed batches of a Fetch response: no control batches, no aborted ones.

A Fetch response under `read_committed` names the aborted transactions of its range, each by its
producer id and first offset. Their records are part of the response, and the reader must skip
them. From the first offset on, it drops every transactional batch of that producer up to the
producer's ABORT marker (Kafka's CompletedFetch).
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from kohort.protocol.batch_format import ABORT_KEY, CONTROL, TRANSACTIONAL, Header, iterate
from kohort.protocol.batches import decode_records, read_header
from kohort.protocol.compression import Buffer

AbortedTransaction: TypeAlias = tuple[int, int]
"""Producer id and first offset of an aborted transaction."""


class AbortedTransactions:
    """Filter for the batches of one partition, in the order of their offsets."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._later = sorted(transactions, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()
        """Producer ids whose aborted transaction has begun and not ended."""

    def excludes(
        self, attributes: int, producer_id: int, last_offset: int, data: Buffer, position: int
    ) -> bool:
        """Whether the batch at `position` of `data` is a control batch or was aborted.

        Raises KafkaError CORRUPT_MESSAGE or INVALID_RECORD if a control batch cannot be read.
        """
        while self._later and self._later[-1][1] <= last_offset:
            self._open.add(self._later.pop()[0])
        if attributes & CONTROL:
            if producer_id in self._open and _is_abort(data, position):
                self._open.remove(producer_id)
            return True
        return bool(attributes & TRANSACTIONAL) and producer_id in self._open


def committed_batches(
    data: Buffer, aborted: Iterable[AbortedTransaction] = ()
) -> Iterator[tuple[int, Header]]:
    """(position, header) of each whole batch with committed records.

    Raises KafkaError CORRUPT_MESSAGE or INVALID_RECORD where there is no batch.
    """
    transactions = AbortedTransactions(aborted)
    for position, header in iterate(data):
        excluded = transactions.excludes(
            header.attributes, header.producer_id, header.last_offset, data, position
        )
        if header.record_count and not excluded:
            yield position, header


def _is_abort(data: Buffer, position: int) -> bool:
    if read_header(data, position).record_count < 1:
        return False
    marker = next(iter(decode_records(data, position)))
    return marker.key == ABORT_KEY
