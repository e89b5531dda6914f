"""Assignors of the server: targets of consumer groups (KIP-848), the same as Kafka's."""

from kohort.assignors.server.assign import RANGE, UNIFORM, assign
from kohort.assignors.server.base import MemberSpec, Subscription, Target, Topics
from kohort.assignors.server.member_table import MemberTable
from kohort.assignors.server.owned import without_overlaps
from kohort.assignors.server.subscriptions import subscription

__all__ = [
    "RANGE",
    "UNIFORM",
    "MemberSpec",
    "MemberTable",
    "Subscription",
    "Target",
    "Topics",
    "assign",
    "subscription",
    "without_overlaps",
]
