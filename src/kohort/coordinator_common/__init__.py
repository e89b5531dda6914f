"""The ground of both coordinators: bytes of their records, timers as values, partitions of keys.

As Kafka's module coordinator-common. `coordinator` has groups, `transactions` transactional ids.
"""

from kohort.coordinator_common.partition import java_hash_code, partition_for
from kohort.coordinator_common.record_reader import CorruptRecordError, RecordReader
from kohort.coordinator_common.timers import Cancel, Timer

__all__ = [
    "Cancel",
    "CorruptRecordError",
    "RecordReader",
    "Timer",
    "java_hash_code",
    "partition_for",
]
