"""The causes of a rebalance as a sentence."""

from collections.abc import Iterable
from typing import Final

from kohort.coordinator.journal import Cause

_SENTENCES: Final = {
    "joined": "{} joined",
    "left": "{} left",
    "expired": "{}'s session expired",
    "metadata changed": "{} rejoined after giving up partitions",
    "leader rejoined": "{}, the leader, rejoined",
    "sync timeout": "{} did not sync in time",
    "replaced": "{} was replaced by its next instance",
}
"""`Cause.what` → sentence."""


def describe_causes(causes: Iterable[Cause]) -> str:
    """A sentence for each kind of cause: `member-1, member-2 joined; member-3 left`."""
    names: dict[str, list[str]] = {}
    for cause in causes:
        of_kind = names.setdefault(cause.what, [])
        if (name := cause.client_id or cause.member_id) not in of_kind:
            of_kind.append(name)
    sentences = (
        _SENTENCES.get(kind, "{}: " + kind).format(", ".join(members))
        for kind, members in names.items()
    )
    return "; ".join(sentences) or "no cause is recorded"
