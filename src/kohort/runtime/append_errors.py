"""The errors that group requests get when their records could not be appended.

As Kafka's CoordinatorRuntime, it maps an error of the log to one that clients of a coordinator
understand.
"""

from typing import Final

from kohort.errors import ErrorCode, KafkaError

SHARD_FAILED: Final = ErrorCode.not_coordinator
"""Error of requests to a failed shard until it is reloaded: clients find the coordinator and retry.
"""

_BY_LOG_ERROR: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}


def append_error(failure: Exception) -> ErrorCode:
    """The error of a request whose records the log refused with `failure`."""
    code = failure.code if isinstance(failure, KafkaError) else ErrorCode.kafka_storage_error
    return _BY_LOG_ERROR.get(code, SHARD_FAILED)
