"""The log of a partition that another node leads."""

from typing import NoReturn

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.log.offline_log import OfflineLog
from kohort.types import TopicPartition


class RemoteLog(OfflineLog):
    """A `Log` whose operations all raise NOT_LEADER_OR_FOLLOWER."""

    def __init__(self, topic_partition: TopicPartition, config: LogConfig) -> None:
        super().__init__(topic_partition, config, None)

    def ensure_open(self) -> NoReturn:
        if self.failure is None:  # most of these logs are never used
            text = f"{self.topic_partition} is led by another node"
            raise KafkaError(ErrorCode.not_leader_or_follower, text)
        super().ensure_open()
