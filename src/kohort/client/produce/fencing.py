"""Finds out why a coordinator does not accept a producer any more.

The coordinator only reports that the epoch is wrong. Its description of the transactional id has
more: an epoch that is newer was given to another producer, to an administrator's client, or by the
coordinator itself when the transaction was open for too long.
"""

from typing import Any, Final

from kohort.client.errors import ProducerFencedError
from kohort.client.produce.batch import ProducerId
from kohort.client.transaction_outcome import TransactionOutcome
from kohort.errors import KafkaError

_OF_AN_ADMINISTRATOR_MS: Final = 1
"""Transaction timeout that Java's `Admin.fenceProducers` sets."""

_OUTCOMES: Final = {
    TransactionOutcome.COMMITTED: "Its last transaction is committed",
    TransactionOutcome.ABORTED: "Its transaction is aborted",
    TransactionOutcome.UNKNOWN: "Whether its transaction is committed is not known",
}


def fenced(
    transactional_id: str,
    error: KafkaError,
    description: Any,
    *,
    producer: ProducerId,
    open_s: float | None,
    timeout_ms: int,
    outcome: TransactionOutcome,
) -> ProducerFencedError:
    """The error to raise for `error`.

    `description` is DescribeTransactions' of the transactional id, or None. The transaction has
    been open for `open_s` (None: none is open); `timeout_ms` is `transaction_timeout_ms`; `outcome`
    is that of the transaction.
    """
    if open_s is not None and open_s * 1000 >= timeout_ms:
        why = late(open_s, timeout_ms).removeprefix("; ")
    elif description is None:
        why = (
            "another producer has the same transactional_id, or the transaction was open for longer"
            " than transaction_timeout_ms, or an administrator fenced it"
        )
    else:
        why = _by_description(description, producer)
    return ProducerFencedError(
        f"the producer of {transactional_id!r} is fenced: {why}. {_OUTCOMES[outcome]}; end "
        "the producer, and do not send its records by another producer without reading the "
        f"positions again ({error})"
    )


def late(open_s: float, timeout_ms: int) -> str:
    """Addition to the error of a transaction that was open for too long; else ""."""
    if open_s * 1000 < timeout_ms:
        return ""
    return (
        f"; it was open for {open_s:.1f} s, and the coordinator aborts a transaction after "
        f"transaction_timeout_ms={timeout_ms}"
    )


def _by_description(described: Any, producer: ProducerId) -> str:
    current = ProducerId(described.producer_id, described.producer_epoch)
    timeout_ms = round(described.transaction_timeout.total_seconds() * 1000)
    if current == producer:
        return f"an administrator aborted its transaction, whose epoch is still {producer.epoch}"
    has = f"producer id {current.id} with epoch {current.epoch} in place of "
    identity = f"{producer.id} with epoch {producer.epoch}"
    if timeout_ms == _OF_AN_ADMINISTRATOR_MS:
        return f"an administrator fenced it ({has}{identity})"
    return (
        f"another producer was started with the same transactional_id; the coordinator has {has}"
        f"{identity}, in state {described.transaction_state}, with a transaction timeout of "
        f"{timeout_ms} ms"
    )
