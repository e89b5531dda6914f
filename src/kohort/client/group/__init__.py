"""`ConsumerGroup`: a group member whose generations are task scopes."""

from kohort.client.group.bound_generation import BoundGeneration
from kohort.client.group.generation import Generation
from kohort.client.group.group import ConsumerGroup, GroupClosedError
from kohort.client.group.offered_batch import OfferedBatch, OfferedBatches
from kohort.client.group.records import BlockingRecords, RecordCursor
from kohort.client.group.signals import SIGNALS, listen
from kohort.client.group.subscription import MemberSubscription

__all__ = [
    "SIGNALS",
    "BlockingRecords",
    "BoundGeneration",
    "ConsumerGroup",
    "Generation",
    "GroupClosedError",
    "MemberSubscription",
    "OfferedBatch",
    "OfferedBatches",
    "RecordCursor",
    "listen",
]
