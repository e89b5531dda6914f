"""Errors of changes that were not logged."""

from kohort.errors import ErrorCode, KafkaError


class SupersededError(OSError):
    """Another node has changed the same thing before."""

    def __str__(self) -> str:
        """The message alone: the error has no errno."""
        return self.strerror or super().__str__()


def storage_error(error: OSError) -> KafkaError:
    """The error for a client whose request the storage failed."""
    if isinstance(error, SupersededError):
        return KafkaError(ErrorCode.not_controller, str(error.strerror))  # which clients retry
    return KafkaError(
        ErrorCode.kafka_storage_error, (f"The storage failed: {error.strerror or error}")
    )
