"""Errors of a group member, and the meaning of Kafka's error codes for it.

Codes are of three kinds. Some end the membership for good; `advice` says what to do about each.
Some are retried after a pause (`is_retriable`), also those of a coordinator that moved
(`moves_coordinator`). The others are part of a rebalance, which the membership handles by name.
"""

from collections.abc import Mapping
from typing import Final

from kohort.client.errors import COORDINATOR_MOVED
from kohort.errors import ErrorCode, KohortError
from kohort.types import TopicPartition

_ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.fenced_instance_id: (
        "another member joined with the same group.instance.id; give each running member "
        "one of its own"
    ),
    ErrorCode.group_authorization_failed: (
        "this principal may not READ the group; grant it that, or name another group"
    ),
    ErrorCode.topic_authorization_failed: (
        "this principal may not READ a subscribed topic; grant it that"
    ),
    ErrorCode.cluster_authorization_failed: (
        "this principal may not use the cluster; grant it what the broker asks for"
    ),
    ErrorCode.invalid_session_timeout: (
        "session_timeout_ms is outside the broker's group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    ErrorCode.inconsistent_group_protocol: (
        "the group's other members have none of this member's assignors, or are of "
        "another protocol type; "
        "configure one that all have, or use another group"
    ),
    ErrorCode.group_max_size_reached: (
        "the group is full; raise the broker's group.max.size, or run fewer members"
    ),
    ErrorCode.group_id_not_found: (
        "the group is of another type, or its classic members cannot be joined with the consumer "
        "protocol; wait until it is empty, use protocol='classic', or another group"
    ),
    ErrorCode.unreleased_instance_id: (
        "another member has the same group.instance.id; give each running member one of its own. "
        "One that ended without leaving gives it up after its session timeout"
    ),
    ErrorCode.unsupported_assignor: (
        "the coordinator does not have the remote_assignor; see its group.consumer.assignors"
    ),
    ErrorCode.invalid_regular_expression: (
        "the coordinator cannot compile the pattern, which has to be a regular expression of RE2"
    ),
    ErrorCode.invalid_group_id: "the broker refuses the group's id; it must not be empty",
    ErrorCode.unsupported_version: (
        "the broker is too old for what is configured; see the message for which request"
    ),
    ErrorCode.invalid_request: (
        "the broker could not read the request; this is a fault of the client, report it"
    ),
    ErrorCode.sasl_authentication_failed: (
        "the broker refuses the credentials; check the mechanism, user and password"
    ),
}

NOT_CURRENT_MEMBER: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.group_id_not_found,
        ErrorCode.stale_member_epoch,
    }
)
"""Error codes of a TxnOffsetCommit by a former member, or by one of an older generation."""


class GroupError(KohortError):
    """The membership has ended for good; the text says why, and what to do."""

    code: ErrorCode | None = None
    """The broker's error code, if one ended the membership."""


class CoordinatorUnavailableError(GroupError):
    """The group's coordinator was unreachable, or refused with retriable errors, for too long."""


class StuckError(GroupError):
    """A task took longer than `max_poll_interval_ms` over one batch of the partition named."""


class GenerationEndedError(KohortError):
    """The generation no longer has the partitions: they are their next owner's to work on."""


class CommitError(KohortError):
    """Some offsets were not committed; `errors` has the cause by partition. The others were."""

    def __init__(self, errors: Mapping[TopicPartition, KohortError]) -> None:
        listed = "; ".join(f"{partition}: {error}" for partition, error in sorted(errors.items()))
        super().__init__(f"not committed: {listed}")
        self.errors = dict(errors)


def is_retriable(code: ErrorCode) -> bool:
    """Whether the same request may succeed later; UNKNOWN_SERVER_ERROR may, for a limited time."""
    return bool(code.retriable) or code is ErrorCode.unknown_server_error


def moves_coordinator(code: ErrorCode) -> bool:
    """Whether the coordinator has to be looked up again before the next attempt."""
    return code in COORDINATOR_MOVED


def advice(code: ErrorCode) -> str | None:
    """What to do about an error that ends the membership; None for an error that does not."""
    return _ADVICE.get(code)


def fatal(code: ErrorCode, request: str, message: str = "") -> GroupError:
    """The exception for an error code that ends the membership; `request` names the request."""
    failure = f"{request} failed with {code.name.upper()}"
    error = GroupError(
        ". ".join(part for part in (failure, message.rstrip("."), advice(code)) if part)
    )
    error.code = code
    return error
