"""Generations that were read from the log: in words, as rows of a table, and for JSON."""

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
"""Members whose new partitions are told one by one."""
_HEADS: Final = {
    "created": "the group was created",
    "deleted": "the group was deleted, or had neither members nor offsets any more",
    "upgraded": "became a group of the consumer protocol",
    "downgraded": "became a group of the classic protocol",
}
"""Outcome → what the words begin with."""


def row(of: LoggedGeneration) -> tuple[object, ...]:
    """ended, outcome, generation, join and sync phase in ms, number of members, changes."""
    ended = of.ended
    join_ms = None if of.started is None or of.joined is None else of.joined - of.started
    sync_ms = None if ended is None or of.joined is None else ended - of.joined
    return (
        None if ended is None else iso(ended),
        of.outcome,
        of.generation,
        join_ms,
        sync_ms,
        len(of.members),
        changes(of),
    )


def changes(of: LoggedGeneration) -> str:
    """What was different from the generation before."""
    return "; ".join(_parts(of))


def _parts(of: LoggedGeneration) -> Iterator[str]:
    name = _namer((*of.members, *of.gone))
    if of.outcome in _HEADS:
        yield _HEADS[of.outcome]
    if of.is_first:
        yield f"the first in the log, with {_names(of.joining, name) or 'no members'}"
    elif of.joining:
        yield f"{_names(of.joining, name)} joined"
    if of.replaced:
        was = "was" if len(of.replaced) == 1 else "were"
        yield f"{_names(of.replaced, name)} {was} replaced by the next instance"
    if of.away:
        yield f"{_names(of.away, name)} left, and may return as the same instance"
    if of.gone and of.outcome != "deleted":
        yield f"{_names(of.gone, name)} {'is' if len(of.gone) == 1 else 'are'} gone"
    if of.resubscribed:
        yield f"{_names(of.resubscribed, name)} changed what it subscribes to"
    has_reason = of.joining or of.replaced or of.gone or of.resubscribed or of.outcome in _HEADS
    if of.members and not has_reason and not of.away:
        yield "partitions of its topics changed" if of.topics_changed else "the same members"
    if of.protocol is not None and of.protocol != of.protocol_before:
        before = "" if of.protocol_before is None else f"{of.protocol_before} → "
        yield f"protocol {before}{of.protocol}"
    yield from _moves(of, name)
    if of.skipped:
        last = of.generation - 1
        first = last - of.skipped + 1
        yield (
            f"generation {last} was never synced"
            if first == last
            else f"generations {first} to {last} were never synced"
        )


def _moves(of: LoggedGeneration, name: Callable[[GroupMember], str]) -> Iterator[str]:
    if len(of.gained) > MAX_MEMBERS_SHOWN:
        count = sum(map(len, of.gained.values()))
        yield f"{len(of.gained)} members got {count:,} partitions"
    else:
        for member, partitions in of.gained.items():
            yield f"{name(member)} got {_listed(partitions)}"
    if of.unowned:
        yield f"nobody owns {_listed(of.unowned)}"


def _listed(partitions: tuple[TopicPartition, ...]) -> str:
    if len(partitions) > MAX_PARTITIONS_SHOWN:
        return f"{len(partitions):,} partitions"
    return f"{partition_list(partitions)}".replace(";", " ")


def _names(members: Iterable[GroupMember], name: Callable[[GroupMember], str]) -> str:
    return join_names(map(name, members))


def _namer(among: Iterable[GroupMember]) -> Callable[[GroupMember], str]:
    """By instance id or client id; by member id where several have that client id."""
    count = Counter(each.client_id for each in among)

    def name(of: GroupMember) -> str:
        if of.instance_id is not None:
            return of.instance_id
        return of.client_id if of.client_id and count[of.client_id] < 2 else of.member_id

    return name


def as_json(of: LoggedGeneration) -> dict[str, Any]:
    """All of it; the fields that the journal has too have its names."""
    return {
        "source": "log",
        "type": of.type,
        "generation": of.generation,
        "outcome": of.outcome,
        "started": of.started,
        "joined": of.joined,
        "ended": of.ended,
        "members": [each.member_id for each in of.members],
        "offset": of.offset,
        "protocol": of.protocol,
        "leader": of.leader,
        "first_in_log": of.is_first,
        "never_synced": of.skipped,
        "members_joined": _members(of.joining),
        "members_gone": _members(of.gone),
        "members_replaced": _members(of.replaced),
        "members_away": _members(of.away),
        "members_resubscribed": _members(of.resubscribed),
        "topics_changed": of.topics_changed,
        "partitions_gained": [
            {"member_id": each.member_id, "partitions": partitions_as_json(partitions)}
            for each, partitions in of.gained.items()
        ],
        "partitions_unowned": partitions_as_json(of.unowned),
        "changes": changes(of),
    }


def _members(of: Iterable[GroupMember]) -> list[dict[str, str | None]]:
    return [each._asdict() for each in of]
