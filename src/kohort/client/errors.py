"""What can go wrong between a client and a cluster, by who can do something about it.

KohortError
  BrokerUnreachableError     no connection, or it broke: another attempt, at another broker too, may succeed
    RequestTimeoutError      a broker took longer than `request_timeout_ms`; its connection is closed
  AuthenticationError        the credentials are refused: no attempt will succeed until they are changed
  UnsupportedVersionError    the broker does not speak what the request needs
  GaveUpError                attempts were made until their time was over: the text tells each kind and how often
  KafkaError                 the broker answered with an error code (`kohort.errors`)
"""

from typing import Final

from kohort.errors import ErrorCode, KafkaError, KohortError


class BrokerUnreachableError(KohortError):
    """There is no connection, or it broke before the answer came. The request may or may not have been carried out."""


class RequestTimeoutError(BrokerUnreachableError):
    """No answer within the time given: the connection was closed, since the order of its answers is lost."""


class AuthenticationError(KohortError):
    """TLS or SASL refused us; the text has what the broker said of it."""


class UnsupportedVersionError(KohortError):
    """The broker does not know the API, or no version of it that has what is asked for."""


class GaveUpError(KohortError):
    """Attempts were made for the time that was given, and none succeeded. `last` is what the last one raised."""

    def __init__(self, message: str, last: BaseException | None) -> None:
        super().__init__(message)
        self.last = last

    @property
    def code(self) -> ErrorCode | None:
        """The wire code of the last attempt's error, if it had one."""
        return self.last.code if isinstance(self.last, KafkaError) else None


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
"""Answers of a partition that another broker leads by now, or soon will: ask for metadata and try again."""

UNKNOWN_TOPIC: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id}
)
"""The topic is not there: it is new and not everybody knows, or it was deleted, or made again with another id."""

COORDINATOR_MOVED: Final = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})
"""Answers of a broker that does not coordinate the group (any more)."""


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed later: by Kafka's RetriableException, or since a connection broke."""
    if isinstance(error, KafkaError):
        return bool(error.code.retriable)
    return isinstance(error, BrokerUnreachableError)
