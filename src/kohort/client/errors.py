"""Errors between a client and a cluster, by the remedy.

KohortError
  BrokerUnreachableError      no connection, or it broke: another attempt or broker may succeed
    RequestTimeoutError       no response within `request_timeout_ms`; the connection is closed
    RebootstrapRequiredError  the client has to start again from the bootstrap servers
  AuthenticationError         the credentials are refused: no attempt succeeds until they change
  ClientClosedError           the client was closed, before the call or during it
  UnsupportedVersionError     the broker does not speak what the request needs
  GaveUpError                 all attempts failed; the text lists the kinds of errors
  SerializationError          a serializer failed: nothing was sent
  DeserializationError        a deserializer failed for one record, which has the bytes
  UndeliveredError            records that were not delivered, a group of their errors
  TransactionError            a transaction did not commit
    TransactionAbortedError   it was aborted, or has to be: nothing of it counts
    CommitUnknownError        no response to the commit: commit again
    ProducerFencedError       another producer has the transactional id: end this one
  KafkaError                  the broker responded with an error code (`kohort.errors`)
"""

from collections.abc import Sequence
from typing import Final

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition


class BrokerUnreachableError(KohortError):
    """No connection, or it broke before the response; the request may have been executed."""

    is_refused = False
    """Whether all addresses refused a connection: no program listens at them."""


class RequestTimeoutError(BrokerUnreachableError):
    """No response arrived in time; the connection was closed, as responses come in order."""


class RebootstrapRequiredError(BrokerUnreachableError):
    """The broker is not the expected node (KIP-1242), or requires a new start (KIP-1102).

    The client starts again from the bootstrap servers.
    """


class AuthenticationError(KohortError):
    """TLS or SASL failed; the text has the broker's message."""


class ClientClosedError(KohortError):
    """The client was closed, before the call or during it. Nothing is retried."""

    def __init__(self) -> None:
        super().__init__("the client is closed: open another one")


class UnsupportedVersionError(KohortError):
    """The broker does not support the API, or no version with a needed feature."""


class GaveUpError(KohortError):
    """All attempts failed for the time given; `last` is the error of the last one."""

    def __init__(self, message: str, last: BaseException | None) -> None:
        super().__init__(message)
        self.last = last

    @property
    def code(self) -> ErrorCode | None:
        """The wire code of the last attempt's error, if it had one."""
        return self.last.code if isinstance(self.last, KafkaError) else None


class OffsetOutOfRangeError(KafkaError):
    """The log has no record at `offset`; it begins at `log_start_offset` (-1: unknown)."""

    def __init__(self, tp: TopicPartition, offset: int, log_start_offset: int) -> None:
        begins = f"; the log begins at {log_start_offset}" if log_start_offset >= 0 else ""
        self.fact = f"{tp} has no offset {offset}{begins}"
        """The error without advice, for a client that continues elsewhere by itself."""
        advice = (
            "seek to an offset of the log, or choose where the client continues: start_offset of "
            "Consumer and ConsumerGroup, out_of_range of Fetcher"
        )
        super().__init__(ErrorCode.offset_out_of_range, f"{self.fact}; {advice}")
        self.topic_partition = tp
        self.offset = offset
        self.log_start_offset = log_start_offset


class LogTruncatedError(KohortError):
    """The epoch that was read last ends at `end_offset` in the log, before `offset`."""

    def __init__(self, tp: TopicPartition, offset: int, end_offset: int) -> None:
        super().__init__(
            f"{tp} was truncated to offset {end_offset} by an unclean leader election, "
            f"{offset} was to be read next;"
            f" records that were read no longer exist: seek to {end_offset} to continue"
        )
        self.topic_partition = tp
        self.offset = offset
        self.end_offset = end_offset


class TopicRecreatedError(KohortError):
    """The topic has another id than when the partition was added."""

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__(
            f"topic {tp.topic} was deleted and recreated: offset and records of {tp} are "
            "of the topic that is gone; to read the new topic, take the partition away (assign of"
            " Consumer, remove of Fetcher), then assign or add it again"
        )
        self.topic_partition = tp


class NotAssignedError(KohortError):
    """The partition was not added, or was removed."""


class SerializationError(KohortError):
    """The serializer refused a key or value: nothing was sent. Its error is the cause."""


class DeserializationError(KohortError):
    """The deserializer refused the key or value of one record. Its error is the cause."""

    def __init__(
        self, tp: TopicPartition, offset: int, field: str, data: bytes | None, reason: str
    ) -> None:
        super().__init__(f"{tp} at offset {offset}: the {field} is not deserialized: {reason}")
        self.topic_partition = tp
        self.offset = offset
        self.field = field
        """"key" or "value"."""
        self.data = data
        """The bytes as they are in the log."""


class DeliveryTimeoutError(KohortError):
    """Records were given up; whether they are in the log is not known if they had been sent."""

    def __init__(self, tp: TopicPartition, message: str) -> None:
        super().__init__(message)
        self.topic_partition = tp


class UndeliveredError(ExceptionGroup[Exception], KohortError):
    """Records were not delivered, and their deliveries were not awaited; the text counts them."""

    def derive(self, excs: Sequence[Exception], /) -> "UndeliveredError":  # type: ignore[override]
        return UndeliveredError(self.message, excs)


class BufferFullError(KohortError):
    """The brokers are slower than the application: `buffer_memory` stayed full for too long."""


class TransactionError(KohortError):
    """A transaction did not commit."""


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, or has to be: its records and offsets do not count.

    Its cause, if there is one, is the error that made it abort. Another transaction may succeed.
    """


class CommitUnknownError(TransactionError):
    """The commit got no response in time: it is unknown whether the transaction is committed.

    Only `Transaction.commit` may follow; it returns the outcome.
    """


class ProducerFencedError(TransactionError):
    """The coordinator does not accept this producer any more: end it; the text has the reason."""


WRONG_LEADER: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.listener_not_found,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.offset_not_available,
        ErrorCode.preferred_leader_not_available,
    }
)
"""Error codes of a partition that another broker leads: request metadata and try again."""

UNKNOWN_TOPIC: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)
"""Error codes of a topic that is new, was deleted, or was recreated with another id."""

COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}
)
"""Error codes of a broker that does not coordinate the group (any more)."""


def is_retriable(error: BaseException) -> bool:
    """Whether the request may succeed later: Kafka's RetriableException, or a broken connection."""
    if isinstance(error, KafkaError):
        return bool(error.code.retriable)
    return isinstance(error, BrokerUnreachableError)
