"""Assignors: pure functions from members and partitions to an assignment.

The names here are the public ones. Each is imported when it is first used; the
server needs none of them (it has `kohort.assignors.server`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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

_MODULES: Final = {
    "ASSIGNORS": "kohort.assignors.registry",
    "Assignment": "kohort.assignors.base",
    "Assignor": "kohort.assignors.base",
    "InvalidAssignmentError": "kohort.assignors.validation",
    "Member": "kohort.assignors.base",
    "RebalanceProtocol": "kohort.assignors.base",
    "SubscribedMember": "kohort.assignors.leader",
    "Topics": "kohort.assignors.base",
    "assignor": "kohort.assignors.registry",
    "encode_metadata": "kohort.assignors.leader",
    "perform_assignment": "kohort.assignors.leader",
    "rebalance_protocol": "kohort.assignors.base",
    "subscribed_topics": "kohort.assignors.leader",
    "without_racks": "kohort.assignors.base",
}

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

# Type checkers take a module with __getattr__ for one that has any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
