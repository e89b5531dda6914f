"""Topics of a subscription in Kafka's order, on which assignments depend."""

from collections.abc import Collection, Mapping
from uuid import UUID

from kohort.assignors.server.base import Subscription
from kohort.assignors.server.java_tables import string_set_order


def subscription(
    names: Collection[str], resolved: Collection[str], topic_ids: Mapping[str, UUID]
) -> Subscription:
    """A member's subscription.

    `names` are the subscribed names, and `resolved` the topics of the member's regular expression,
    both as in their records. `topic_ids` has the existing topics.
    """
    large, small = string_set_order(names), string_set_order(resolved)
    if len(large) <= len(small):
        large, small = small, large
    union = dict.fromkeys(large) | dict.fromkeys(small)
    return Subscription(tuple(topic_ids[name] for name in union if name in topic_ids), len(union))
