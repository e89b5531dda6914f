"""Formats generations of the log: as text, as rows of a table, and for JSON."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kohort.cli.group_tables import partition_list, partitions_as_json
from kohort.client.resets import iso
from kohort.coordinator.history import GroupMember, LoggedGeneration
from kohort.types import TopicPartition
from kohort.util.text import join_names

MAX_PARTITIONS_SHOWN: Final = 10
"""Partitions that are listed for one member; more are counted."""
MAX_MEMBERS_SHOWN: Final = 4
"""Most members whose new partitions are listed one by one."""
_HEADS: Final = {
    "created": "the group was created",
    "deleted": "the group was deleted, or had no members and offsets left",
    "upgraded": "became a group of the consumer protocol",
    "downgraded": "became a group of the classic protocol",
}
"""Outcome → beginning of the text."""


def row(generation: LoggedGeneration) -> tuple[object, ...]:
    """ended, outcome, generation, join and sync phase in ms, number of members, changes."""
    ended = generation.ended
    join_ms = (
        None
        if generation.started is None or generation.joined is None
        else generation.joined - generation.started
    )
    sync_ms = None if ended is None or generation.joined is None else ended - generation.joined
    return (
        None if ended is None else iso(ended),
        generation.outcome,
        generation.generation,
        join_ms,
        sync_ms,
        len(generation.members),
        changes(generation),
    )


def changes(generation: LoggedGeneration) -> str:
    """The differences to the previous generation, as text."""
    return "; ".join(_parts(generation))


def _parts(generation: LoggedGeneration) -> Iterator[str]:
    name = _namer((*generation.members, *generation.removed))
    if generation.outcome in _HEADS:
        yield _HEADS[generation.outcome]
    if generation.is_first:
        yield f"the first in the log, with {_names(generation.joining, name) or 'no members'}"
    elif generation.joining:
        yield f"{_names(generation.joining, name)} joined"
    if generation.replaced:
        was = "was" if len(generation.replaced) == 1 else "were"
        yield f"{_names(generation.replaced, name)} {was} replaced by the next instance"
    if generation.away:
        yield f"{_names(generation.away, name)} left, and may return as the same instance"
    if generation.removed and generation.outcome != "deleted":
        verb = "is" if len(generation.removed) == 1 else "are"
        yield f"{_names(generation.removed, name)} {verb} gone"
    if generation.resubscribed:
        yield f"{_names(generation.resubscribed, name)} changed its subscription"
    has_reason = (
        generation.joining
        or generation.replaced
        or generation.removed
        or generation.resubscribed
        or generation.outcome in _HEADS
    )
    if generation.members and not has_reason and not generation.away:
        yield (
            "partitions of its topics changed" if generation.topics_changed else "the same members"
        )
    if generation.protocol is not None and generation.protocol != generation.protocol_before:
        before = "" if generation.protocol_before is None else f"{generation.protocol_before} → "
        yield f"protocol {before}{generation.protocol}"
    yield from _moves(generation, name)
    if generation.skipped:
        last = generation.generation - 1
        first = last - generation.skipped + 1
        yield (
            f"generation {last} was never synced"
            if first == last
            else f"generations {first} to {last} were never synced"
        )


def _moves(generation: LoggedGeneration, name: Callable[[GroupMember], str]) -> Iterator[str]:
    if len(generation.gained) > MAX_MEMBERS_SHOWN:
        count = sum(map(len, generation.gained.values()))
        yield f"{len(generation.gained)} members got {count:,} partitions"
    else:
        for member, partitions in generation.gained.items():
            yield f"{name(member)} got {_listed(partitions)}"
    if generation.unowned:
        yield f"no member owns {_listed(generation.unowned)}"


def _listed(partitions: tuple[TopicPartition, ...]) -> str:
    if len(partitions) > MAX_PARTITIONS_SHOWN:
        return f"{len(partitions):,} partitions"
    return f"{partition_list(partitions)}".replace(";", " ")


def _names(members: Iterable[GroupMember], name: Callable[[GroupMember], str]) -> str:
    return join_names(map(name, members))


def _namer(among: Iterable[GroupMember]) -> Callable[[GroupMember], str]:
    """A function that names a member by instance id, unique client id, or member id."""
    count = Counter(member.client_id for member in among)

    def name(member: GroupMember) -> str:
        if member.instance_id is not None:
            return member.instance_id
        return (
            member.client_id
            if member.client_id and count[member.client_id] < 2
            else member.member_id
        )

    return name


def as_json(generation: LoggedGeneration) -> dict[str, Any]:
    """All fields of a generation, with the journal's names where it has the field."""
    return {
        "source": "log",
        "type": generation.type,
        "generation": generation.generation,
        "outcome": generation.outcome,
        "started": generation.started,
        "joined": generation.joined,
        "ended": generation.ended,
        "members": [member.member_id for member in generation.members],
        "offset": generation.offset,
        "protocol": generation.protocol,
        "leader": generation.leader,
        "first_in_log": generation.is_first,
        "never_synced": generation.skipped,
        "members_joined": _members(generation.joining),
        "members_gone": _members(generation.removed),
        "members_replaced": _members(generation.replaced),
        "members_away": _members(generation.away),
        "members_resubscribed": _members(generation.resubscribed),
        "topics_changed": generation.topics_changed,
        "partitions_gained": [
            {"member_id": member.member_id, "partitions": partitions_as_json(partitions)}
            for member, partitions in generation.gained.items()
        ],
        "partitions_unowned": partitions_as_json(generation.unowned),
        "changes": changes(generation),
    }


def _members(members: Iterable[GroupMember]) -> list[dict[str, str | None]]:
    return [member._asdict() for member in members]
