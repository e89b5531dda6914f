"""Hints behind errors: the nearest names for those that do not exist, and what else to do."""

import argparse
import re
from collections.abc import Iterable
from typing import Final

from kohort.client.admin import CLASSIC, GROUP_TYPES, Admin, ConfigResource
from kohort.errors import ErrorCode, KohortError, unless_error
from kohort.util.text import closest

_CONFIG: Final = re.compile(r"(?:^|,)\s*([\w.-]+)=")
"""The name in each NAME=VALUE of `--add-config` and `--config`."""
REFUSALS: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
NO_ACL: Final = "; no ACL allows this user to do so: kohort acls add gives one"


async def near_names(admin: Admin, code: ErrorCode, options: argparse.Namespace) -> str:
    """A hint for the end of an error with that code about what `options` name; "" if none fits."""
    if code in REFUSALS:
        return NO_ACL
    match code:
        case ErrorCode.unknown_topic_or_partition:
            # A topic may have its partitions behind a colon, which no name has.
            names = (*_named(options, "topic"), *_named(options, "entity_name"))
            return await near_topics(admin, (name.partition(":")[0] for name in names))
        case ErrorCode.group_id_not_found:
            return await near_groups(admin, _named(options, "group"))
        case ErrorCode.transactional_id_not_found:
            return await _near_transactional_ids(admin, options)
        case ErrorCode.invalid_config:
            return await _near_configs(admin, options)
        case ErrorCode.security_disabled:
            return "; authorizer.class.name of the broker sets one"
        case _:
            return ""


async def near_topics(admin: Admin, names: Iterable[str]) -> str:
    """As `near_names`, for names of topics."""
    try:
        return _hint(names, await admin.describe_topics())
    except KohortError:
        return ""


async def near_groups(admin: Admin, names: Iterable[str]) -> str:
    """As `near_names`, for ids of groups; tells of a group that has another type."""
    types = await _group_types(admin)
    wanted = list(names)
    others = [
        f"; {name} is a {types[name].lower()} group"
        for name in wanted
        if types.get(name, CLASSIC) not in GROUP_TYPES
    ]
    return "".join(others) or _hint(wanted, types)


async def why_not_described(admin: Admin, group: str) -> str:
    """Of a group that is neither a classic nor a consumer group: its type, or near names."""
    type_ = (await _group_types(admin)).get(group, CLASSIC)
    if type_ not in GROUP_TYPES:
        return f"is a {type_.lower()} group; classic and consumer groups can be shown"
    return f"does not exist{await near_groups(admin, [group])}"


async def _group_types(admin: Admin) -> dict[str, str]:
    """The type of each group that brokers list."""
    try:
        return {each.group: each.type for each in (await admin.list_groups()).groups}
    except KohortError:
        return {}


async def _near_transactional_ids(admin: Admin, options: argparse.Namespace) -> str:
    try:
        known = (await admin.list_transactions()).transactions
    except KohortError:
        return ""
    return _hint(_named(options, "transactional_id"), (each.transactional_id for each in known))


async def _near_configs(admin: Admin, options: argparse.Namespace) -> str:
    words = [*_named(options, "add_config"), *_named(options, "config")]
    group = getattr(options, "group", None)
    if getattr(options, "entity_type", None) == "groups":
        group = options.entity_name
    try:
        if group:
            resource = ConfigResource("group", group)
        else:  # All topics have the same names; one that is to be created has none yet.
            resource = ConfigResource("topic", min(await admin.describe_topics()))
        known = unless_error((await admin.describe_configs([resource]))[resource])
    except (KohortError, ValueError):  # ValueError: there are no topics
        return ""
    return _hint((each for word in words for each in _CONFIG.findall(word)), known)


def _named(options: argparse.Namespace, attribute: str) -> list[str]:
    given = getattr(options, attribute, None) or []
    return [given] if isinstance(given, str) else list(given)


def _hint(names: Iterable[str], known: Iterable[str]) -> str:
    there = set(known)
    near = [closest(name, sorted(there)) for name in names if name not in there]
    found = " and ".join(name for name in near if name is not None)
    return f"; did you mean {found}?" if found else ""
