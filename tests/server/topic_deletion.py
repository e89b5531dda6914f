"""Deletes a topic in one step, for tests that do not wait for the disk."""

from kohort.server.controller import Controller
from kohort.server.metadata import RemoveTopicRecord


def delete_topic(controller: Controller, name: str) -> None:
    """Log the deletion of a topic, and close its logs; the next `durable` removes its records.

    Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
    """
    topic = controller.replication.existing_topic(name)
    controller.writer.commit(RemoveTopicRecord(topic.id))
    controller.replicas.topics.remove((topic,))
    for _ in controller.replicas.retire(topic):
        pass
