"""The topics of the coordinators, which exist before a server serves."""

from typing import Final

from kohort.log.partition_mark import new_topic_id
from kohort.server.config import Config
from kohort.server.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicRecord

_SETTINGS: Final = {OFFSETS_TOPIC: "offsets.topic", TRANSACTIONS_TOPIC: "transaction.state.log"}
"""The prefix of the broker's settings for each."""


def coordinator_topics(config: Config) -> tuple[TopicRecord, ...]:
    """New ones, with the settings of the server."""
    return tuple(
        TopicRecord(
            id=new_topic_id(),
            name=name,
            partitions=config[f"{settings}.num.partitions"],
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config[f"{settings}.segment.bytes"]),
            },
            internal=True,
        )
        for name, settings in _SETTINGS.items()
    )
