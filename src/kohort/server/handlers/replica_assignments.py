"""Validation of replica assignments."""

from collections.abc import Collection, Sequence

from kohort.errors import ErrorCode, KafkaError


def validate_replicas(broker_ids: Sequence[int], node_ids: Collection[int]) -> None:
    """Raises KafkaError INVALID_REPLICA_ASSIGNMENT, with Kafka's text, for any other broker."""
    if not broker_ids:
        raise _invalid("includes an empty replica list.")
    for broker_id in broker_ids:
        if broker_ids.count(broker_id) > 1:
            raise _invalid(f"includes the broker {broker_id} more than once.")
        if broker_id not in node_ids:
            raise _invalid(f"includes broker {broker_id}, but no such broker is registered.")


def _invalid(why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_replica_assignment, f"The manual partition assignment {why}"
    )
