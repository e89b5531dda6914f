"""Options that several `kohort groups` commands share: which groups, which topics, which states."""

import argparse
from collections.abc import Sequence

from kohort.cli.name_arguments import add_names
from kohort.cli.options import RefusedError
from kohort.client.admin import CONSUMER, Admin
from kohort.errors import fresh
from kohort.types import GroupId


def add_group_arguments(parser: argparse.ArgumentParser) -> None:
    add_names(parser, "--group", "GROUP", "group id")
    parser.add_argument("--all-groups", action="store_true", help="all consumer groups")


def check_groups(options: argparse.Namespace) -> None:
    """Raise RefusedError unless the groups are named in one way."""
    if options.all_groups == bool(options.group):
        raise RefusedError("a group is missing: GROUP… or --all-groups")
    if "" in options.group:
        raise RefusedError("--group: the group id is empty")


async def groups_of(options: argparse.Namespace, admin: Admin) -> list[GroupId]:
    """The named groups without duplicates, or all.

    Raises KohortError unless all brokers respond.
    """
    if not options.all_groups:
        return list(dict.fromkeys(map(GroupId, options.group)))
    listing = await admin.list_groups()
    for failure in listing.failures.values():
        raise fresh(
            failure
        )  # "All" must not silently leave out groups of unreachable coordinators.
    return [group.group for group in listing.groups if group.protocol_type in ("", CONSUMER)]


def add_topic_argument(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--topic", metavar="TOPIC[:0,1,2]", action="append", default=[], help=help)


def topics(options: argparse.Namespace) -> dict[str, set[int] | None]:
    """Topic → its partitions, None for all. Raises RefusedError."""
    scope: dict[str, set[int] | None] = {}
    for text in options.topic:
        topic, colon, indexes = text.partition(":")
        if not topic:
            raise RefusedError(f"--topic {text}: has no name")
        chosen = _indexes(text, indexes) if colon else None
        before = scope.get(topic, set())
        scope[topic] = None if chosen is None or before is None else before | chosen
    return scope


def _indexes(text: str, indexes: str) -> set[int]:
    numbers = indexes.split(",")
    if not all(word.isdecimal() for word in numbers):
        raise RefusedError(
            f"--topic {text}: partitions are numbers, as in {text.partition(':')[0]}:0,1,2"
        )
    return set(map(int, numbers))


def one_of(flag: str, text: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """The names in a comma-separated list, in Kafka's spelling. Raises RefusedError."""
    by_lower = {name.lower(): name for name in allowed}
    names = [word.strip() for word in text.split(",") if word.strip()]
    if wrong := [name for name in names if name.lower() not in by_lower]:
        raise RefusedError(f"{flag} {','.join(wrong)}: is not one of {' | '.join(allowed)}")
    return tuple(by_lower[name.lower()] for name in names)
