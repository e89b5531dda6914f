"""The sender's interface to the producer id under which batches are sent.

`ProducerIds` implements it for idempotent producers, `Transactions` for transactional ones.
"""

from collections.abc import Iterable
from typing import Protocol

from kohort.client.produce.batch import ProduceBatch, ProducerId
from kohort.errors import ErrorCode, KohortError
from kohort.types import TopicPartition


class ProducerIdentity(Protocol):
    """An id with its epoch, and the limits of sending under it."""

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def versions(self) -> tuple[int, int]:
        """Lowest and highest version of Produce."""
        ...

    @property
    def current(self) -> ProducerId | None:
        """The id; None while it has to be requested (`acquire`)."""
        ...

    @property
    def failure(self) -> KohortError | None:
        """Why the batches that wait are not to be sent; None if they are."""
        ...

    async def acquire(self) -> None:
        """Request an id if there is none. Raises KohortError."""
        ...

    def may_send(self, tp: TopicPartition) -> bool:
        """Whether batches of the partition may be sent; if not, `admit` it first."""
        ...

    async def admit(self, partitions: Iterable[TopicPartition]) -> None:
        """Have the partitions added to the transaction. Raises KohortError."""
        ...

    def sending(self) -> None:
        """A batch is being sent."""
        ...

    def renew(self, producer_id: ProducerId, code: ErrorCode) -> bool:
        """The broker refused the sequence of the first batch in flight under the id `producer_id`.

        Whether the batches may be sent again under another id.
        """
        ...

    def given_up(self, batch: ProduceBatch, error: Exception) -> None:
        """A batch is not in the log, or it is not known whether it is."""
        ...
