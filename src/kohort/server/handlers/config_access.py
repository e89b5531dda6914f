"""Authorization of DescribeConfigs and both AlterConfigs: who may see or change which configs."""

from kohort.errors import ErrorCode, KafkaError
from kohort.server.authorization import Access
from kohort.server.config import ResourceType


def authorize(access: Access, kind: int, name: str) -> None:
    """Raise KafkaError if the client may not: configs of brokers and the like are the cluster's."""
    match kind:
        case ResourceType.TOPIC if not access.topic(name):
            error = ErrorCode.topic_authorization_failed
        case ResourceType.GROUP if not access.group(name):
            error = ErrorCode.group_authorization_failed
        case ResourceType.TOPIC | ResourceType.GROUP:
            return
        case _ if not access.cluster():
            error = ErrorCode.cluster_authorization_failed
        case _:
            return
    raise KafkaError(error, "The client is not authorized to access the configs.")


def authorize_change(access: Access, kind: int, name: str) -> None:
    """As `authorize`. As in Kafka 4.4, the refusal to change configs of brokers has no text."""
    if kind == ResourceType.BROKER and not access.cluster():
        raise KafkaError(ErrorCode.cluster_authorization_failed)
    authorize(access, kind, name)
