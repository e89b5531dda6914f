"""Sentences about rebalances, for people."""

from kohort.coordinator.journal import Cause, Rebalance

SAID = {
    "joined": "{} joined",
    "left": "{} left",
    "expired": "{}'s session expired",
    "metadata changed": "{} rejoined, having given up partitions",
    "leader rejoined": "{}, the leader, rejoined",
    "sync timeout": "{} did not sync in time",
    "replaced": "{} was replaced by its next instance",
}


def why(causes: tuple[Cause, ...]) -> str:
    """Who did what, each kind of cause once: `member-1, member-2 joined; member-3 left`."""
    who: dict[str, list[str]] = {}
    for cause in causes:
        names = who.setdefault(cause.what, [])
        name = cause.client_id or cause.member_id
        if name not in names:
            names.append(name)
    told = (SAID.get(what, "{}: " + what).format(", ".join(names)) for what, names in who.items())
    return "; ".join(told) or "no cause was noted"


def became(rebalance: Rebalance) -> str:
    """What it made: `generation 3`, or why it made none."""
    if rebalance.outcome == "stable":
        return f"generation {rebalance.generation}"
    if rebalance.outcome == "empty":
        return "an empty group"
    return f"{rebalance.outcome}, another round followed"
