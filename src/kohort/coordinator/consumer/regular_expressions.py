"""Subscriptions by regular expression, and their resolution to topics.

All regular expressions of a group are resolved together in the background. A member's heartbeat
starts that if one is unresolved, if topics were created since, or if the last result is old. An
unresolved expression matches no topic. Expressions match only topics that the client of that
heartbeat may describe.

Source: maybeUpdateRegularExpressions and handleRegularExpressionsResult of Kafka.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import Final
from uuid import UUID

from kohort.coordinator.consumer.change import MemberChange, subscribed_ids
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.leaving import bump_epoch
from kohort.coordinator.consumer.subscribed_metadata import metadata_hash
from kohort.coordinator.consumer_records import (
    RegularExpressionKey,
    RegularExpressionRecord,
    RegularExpressionValue,
)
from kohort.coordinator.jobs import RegexesResolved, ResolveRegexes
from kohort.coordinator.journal import Cause
from kohort.coordinator.step import Step
from kohort.coordinator.topics import TopicsView
from kohort.errors import ErrorCode, KafkaError
from kohort.util.regular_expression import RegularExpression, RegularExpressionError

MIN_INTERVAL_MS: Final = 10_000
"""Minimum time between two resolutions."""
MAX_INTERVAL_MS: Final = 600_000
"""Maximum age of a result before the expressions are resolved again."""
MAX_REGEXES: Final = 100
"""Maximum number of expressions in a group: each is matched with all topics, and stored."""
MAX_STORED_NAMES: Final = 50_000
"""Maximum number of topic names that one event stores."""


def validate_regex(change: MemberChange) -> None:
    """Raises KafkaError INVALID_REGULAR_EXPRESSION if it is invalid, or exceeds `MAX_REGEXES`."""
    regex, group = change.after.metadata.regex, change.group
    if not regex or not change.regex_changed or group.regex_members[regex]:
        return
    former = change.before.metadata.regex
    others = len(group.regex_members) - (bool(former) and not change.regex_subscribers(former))
    if others >= MAX_REGEXES:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"The members of group {group.id} have {MAX_REGEXES} different regular expressions.",
        )
    try:
        RegularExpression(regex)
    except RegularExpressionError as error:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


def maybe_resolve(change: MemberChange, topics: TopicsView, step: Step) -> None:
    """Resolve the group's regular expressions in the background if due."""
    group = change.group
    if group.is_resolving or not (group.regex_members or change.after.metadata.regex):
        return
    candidates = dict.fromkeys((*group.regex_members, change.after.metadata.regex))
    regexes = [regex for regex in candidates if regex and change.regex_subscribers(regex) > 0]
    if regexes and _is_due(group, regexes, topics, step):
        group.is_resolving = True
        step.start(ResolveRegexes(group.id, tuple(regexes), topics.version, change.may_describe))


def _is_due(group: ConsumerGroup, regexes: Iterable[str], topics: TopicsView, step: Step) -> bool:
    if not group.regexes:
        return True
    age = step.timestamp - max(value.timestamp for value in group.regexes.values())
    if 0 <= age <= MIN_INTERVAL_MS:
        return False
    return (
        age < 0  # the wall clock was set back
        or any(regex not in group.regexes for regex in regexes)
        or max(value.version for value in group.regexes.values()) < topics.created_version
        or age > MAX_INTERVAL_MS
    )


def regexes_resolved(
    group: ConsumerGroup, event: RegexesResolved, topics: TopicsView, step: Step
) -> None:
    """Record the result, and bump the group epoch if the subscribed topics change.

    A large result is recorded in parts; the last one bumps the epoch.
    """
    bumps = event.bumps or _changes_anything(group, event.topics, topics)
    matched = tuple(event.topics.items())
    lengths = accumulate(len(names) for _, names in matched)
    count = 1 + sum(1 for _ in takewhile(MAX_STORED_NAMES.__ge__, lengths))
    resolved = {regex: names for regex, names in matched[:count] if group.regex_members[regex]}
    for regex, names in resolved.items():
        value = RegularExpressionValue(names, event.version, step.timestamp)
        step.record(RegularExpressionRecord(RegularExpressionKey(group.id, regex), value))
    if later := dict(matched[count:]):
        step.continue_with(replace(event, topics=later, bumps=bumps))
        return
    group.is_resolving = False
    other_topics = (value.topics for regex, value in group.regexes.items() if regex not in resolved)
    subscribed = set(group.subscriptions.names).union(*other_topics, *resolved.values())
    hash_ = metadata_hash(subscribed, topics)
    if bumps or hash_ != group.metadata_hash:
        bump_epoch(group, hash_, Cause("regular expression resolved", ""), topics, step)


def _changes_anything(
    group: ConsumerGroup, matched: Mapping[str, tuple[str, ...]], topics: TopicsView
) -> bool:
    """Whether these results differ from the stored ones, or members gave up topics for them."""
    subscribed = {regex: names for regex, names in matched.items() if group.regex_members[regex]}
    return any(
        names != _topics_of(group, regex) for regex, names in subscribed.items()
    ) or _are_given_up(group, subscribed.keys() - group.regexes.keys(), topics)


def _are_given_up(group: ConsumerGroup, regexes: Collection[str], topics: TopicsView) -> bool:
    """Whether members gave up topics of their targets for these expressions without topics.

    Their partitions would have no owner until the next bump, if others subscribe to the topics.
    """
    if not regexes:
        return False
    subscribed: dict[tuple[int, str], frozenset[UUID]] = {}
    for member_id, member in group.members.items():
        metadata, target = member.metadata, group.targets.get(member_id)
        if metadata.regex not in regexes or not target:
            continue
        key = id(metadata.topics), metadata.regex
        if key not in subscribed:
            subscribed[key] = subscribed_ids(group, metadata, topics)
        if not subscribed[key].issuperset(target):
            return True
    return False


def _topics_of(group: ConsumerGroup, regex: str) -> tuple[str, ...]:
    resolution = group.regexes.get(regex)
    return () if resolution is None else resolution.topics
