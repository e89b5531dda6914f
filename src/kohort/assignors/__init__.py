"""Assignors: pure functions from members and partitions to an assignment."""

from kohort.assignors.base import (
    Assignment,
    Assignor,
    Member,
    RebalanceProtocol,
    Topics,
    rebalance_protocol,
    without_racks,
)
from kohort.assignors.leader import (
    SubscribedMember,
    encode_metadata,
    perform_assignment,
    subscribed_topics,
)
from kohort.assignors.registry import ASSIGNORS, assignor
from kohort.assignors.validation import InvalidAssignmentError

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "InvalidAssignmentError",
    "Member",
    "RebalanceProtocol",
    "SubscribedMember",
    "Topics",
    "assignor",
    "encode_metadata",
    "perform_assignment",
    "rebalance_protocol",
    "subscribed_topics",
    "without_racks",
]
