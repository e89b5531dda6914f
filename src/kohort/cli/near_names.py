"""Hints at the end of errors: the nearest names to an unknown one, or another remedy."""

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
    """The hint for an error code, by the names in `options`; "" if none fits."""
    if code in REFUSALS:
        return NO_ACL
    match code:
        case ErrorCode.unknown_topic_or_partition:
            # Partitions may follow the topic's name after a colon, which no name contains.
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
    """As `near_names`, for ids of groups; names the type of a group of another type."""
    types = await _group_types(admin)
    group_ids = list(names)
    others = [
        f"; {name} is a {types[name].lower()} group"
        for name in group_ids
        if types.get(name, CLASSIC) not in GROUP_TYPES
    ]
    return "".join(others) or _hint(group_ids, types)


async def why_not_described(admin: Admin, group: str) -> str:
    """The hint for a group that is not a classic or consumer group: its type, or near names."""
    type_ = (await _group_types(admin)).get(group, CLASSIC)
    if type_ not in GROUP_TYPES:
        return f"is a {type_.lower()} group; classic and consumer groups can be shown"
    return f"does not exist{await near_groups(admin, [group])}"


async def _group_types(admin: Admin) -> dict[str, str]:
    """The type of each group that brokers list."""
    try:
        return {group.group: group.type for group in (await admin.list_groups()).groups}
    except KohortError:
        return {}


async def _near_transactional_ids(admin: Admin, options: argparse.Namespace) -> str:
    try:
        transactions = (await admin.list_transactions()).transactions
    except KohortError:
        return ""
    return _hint(
        _named(options, "transactional_id"),
        (transaction.transactional_id for transaction in transactions),
    )


async def _near_configs(admin: Admin, options: argparse.Namespace) -> str:
    texts = [*_named(options, "add_config"), *_named(options, "config")]
    group = getattr(options, "group", None)
    if getattr(options, "entity_type", None) == "groups":
        group = options.entity_name
    try:
        if group:
            resource = ConfigResource("group", group)
        else:  # All topics have the same configs, and a new topic has none yet.
            resource = ConfigResource("topic", min(await admin.describe_topics()))
        configs = unless_error((await admin.describe_configs([resource]))[resource])
    except (KohortError, ValueError):  # ValueError: there are no topics
        return ""
    return _hint((name for word in texts for name in _CONFIG.findall(word)), configs)


def _named(options: argparse.Namespace, attribute: str) -> list[str]:
    value = getattr(options, attribute, None) or []
    return [value] if isinstance(value, str) else list(value)


def _hint(names: Iterable[str], existing: Iterable[str]) -> str:
    existing_names = set(existing)
    near = [closest(name, sorted(existing_names)) for name in names if name not in existing_names]
    matches = " and ".join(name for name in near if name is not None)
    return f"; did you mean {matches}?" if matches else ""
