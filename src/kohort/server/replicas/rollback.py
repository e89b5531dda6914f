"""Topics after changes that were rolled back.

Created topics and partitions are removed at once. Deleted topics are restored in slices, as a topic
may have 10,000 logs.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from uuid import UUID

from kohort.server.metadata import MetadataImage, TopicRecord, partitions_of
from kohort.server.replicas.claimed_names import ClaimedNames
from kohort.server.replicas.partition_logs import PartitionLogs
from kohort.server.replicas.topic import Topic
from kohort.server.replicas.topic_deletions import Deletions
from kohort.server.replicas.topics import Topics
from kohort.util.time_slice import TimeSlices


class Rollback:
    """Restores topics and logs to the state of the image."""

    def __init__(
        self,
        image: MetadataImage,
        topics: Topics,
        logs: PartitionLogs,
        names: ClaimedNames,
        deletions: Deletions,
    ) -> None:
        self._image = image
        self._topics = topics
        self._logs = logs
        self._names = names
        self._deletions = deletions
        self._steps: deque[Callable[[], object]] = deque()
        """Short steps that are left to do."""

    def begin(self, ids: Iterable[UUID]) -> None:
        """Begin to restore these topics; `finish_in_slices` completes it."""
        self._topics.responses.clear()
        for topic_id in ids:
            record, topic = self._image.topics.get(topic_id), self._topics.by_id(topic_id)
            if record is None:
                if topic is not None:
                    self._withdraw(topic)
            elif topic is None:
                self._restore(record)
            else:
                self._withdraw_partitions(topic, record.partitions)
                self._logs.configure(topic, record.configs)

    async def finish_in_slices(self) -> None:
        """Return when all topics are as the image says."""
        slices = TimeSlices()
        while self._steps:
            self._steps.popleft()()
            await slices.give_way()

    def finish(self) -> None:
        """`finish_in_slices`, blocking until it is done."""
        while self._steps:
            self._steps.popleft()()

    def close(self) -> None:
        """Drop the remaining steps. Idempotent."""
        self._steps.clear()

    def _withdraw(self, topic: Topic) -> None:
        self._topics.remove((topic,))
        self._withdraw_partitions(topic, 0)
        self._steps.append(partial(self._names.disclaim, topic.name))

    def _withdraw_partitions(self, topic: Topic, count: int) -> None:
        removed = self._topics.remove_partitions(topic, count)
        self._steps += (partial(self._logs.withdraw, log, topic.id) for log in removed)

    def _restore(self, record: TopicRecord) -> None:
        self._names.claim(record.name)
        partitions = partitions_of(record)
        self._deletions.undo(record.name, partitions)
        settings = self._logs.settings(self._logs.effective(record.configs))
        for partition, topic_id in partitions.items():
            self._steps.append(partial(self._logs.open_or_refuse, partition, topic_id, settings))
        self._steps.append(partial(self._add_restored, record.id))

    def _add_restored(self, topic_id: UUID) -> None:
        """Add a restored topic in its current state, unless it was deleted meanwhile."""
        record = self._image.topics.get(topic_id)
        if record is not None and self._topics.by_id(topic_id) is None:
            self._topics.add(self._logs.open_topic(record))
            self._names.claim(record.name)
