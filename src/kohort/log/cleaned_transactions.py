"""What compaction knows of the transactions whose batches it reads (CleanedTransactionMetadata).

The batches come in the order of their offsets, from the start of the log or of its dirty part.
"""

from collections.abc import Iterable

from kohort.log.aborted_index import AbortedTransaction
from kohort.protocol.batches import EndTransactionMarker, Header


class CleanedTransactions:
    """The transactions of one pass over a log."""

    __slots__ = ("_aborted", "_committed", "_later")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: those with records or a marker in the batches that are read."""
        self._later = sorted(
            aborted, key=lambda transaction: transaction.first_offset, reverse=True
        )
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        """Transactions that are open, by producer id, and whether batches of them were read."""
        self._committed: set[int] = set()
        """Producer ids of other transactions of which batches were read."""

    def is_aborted(self, header: Header) -> bool:
        """Whether a batch of records is of an aborted transaction; it counts as read."""
        self._begin(header.last_offset)
        if not header.is_transactional or header.producer_id not in self._aborted:
            if header.is_transactional:
                self._committed.add(header.producer_id)
            return False
        transaction, _ = self._aborted[header.producer_id]
        self._aborted[header.producer_id] = transaction, True
        return True

    def end(
        self, header: Header, marker: EndTransactionMarker | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Whether a control batch is needed, as batches of its transaction were read.

        One that is no marker always is. Also the transaction, if it is an aborted one that readers
        have to know of.
        """
        self._begin(header.last_offset)
        if marker is None:
            return True, None
        if marker.commit:
            is_needed = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return is_needed, None
        transaction, were_read = self._aborted.pop(header.producer_id, (None, False))
        return were_read, transaction if were_read else None

    def _begin(self, last_offset: int) -> None:
        while self._later and self._later[-1].first_offset <= last_offset:
            begun = self._later.pop()
            self._aborted.setdefault(begun.producer_id, (begun, False))
