"""The log of a partition that another node leads."""

from typing import NoReturn

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.log.refused import RefusedLog
from kohort.types import TopicPartition


class ElsewhereLog(RefusedLog):
    """A `Log` that raises NOT_LEADER_OR_FOLLOWER, whatever is asked of it."""

    def __init__(self, topic_partition: TopicPartition, config: LogConfig) -> None:
        super().__init__(topic_partition, config, None)

    def _refuse(self) -> NoReturn:
        if self.failure is None:  # most of these logs are never asked anything
            text = f"{self.topic_partition} is led by another node"
            raise KafkaError(ErrorCode.not_leader_or_follower, text)
        super()._refuse()

    def __repr__(self) -> str:
        return f"<ElsewhereLog {self.topic_partition}>"
