"""The error for a name that a package does not have: it says where such a class is.

Names are those of aiokafka, confluent-kafka, kafka-python and Java's client, and those that another
package of Kohort has. A package's `__getattr__` raises the error that `missing` returns.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Final

_PACKAGES: Final = ("kohort.client", "kohort.client.sync", "kohort.testing")
"""Where a name is looked up; in these packages, all public names are listed by `__all__`."""
_ELSEWHERE: Final = {
    "Broker": "kohort.server.broker",
    "Config": "kohort.server.config",
    "SchemaRegistry": "kohort.client.schema_registry",
    "SchemaRegistryError": "kohort.client.schema_registry",
}
_READERS: Final = (
    "kohort.client.ConsumerGroup is a member of a group, Consumer reads chosen partitions"
)
_BLOCKING_READERS: Final = f"{_READERS}; kohort.client.sync has both for programs that block"
_PRODUCER: Final = "it is kohort.client.Producer"
_BLOCKING_PRODUCER: Final = f"{_PRODUCER}; kohort.client.sync has one for programs that block"
_ADMIN: Final = "it is kohort.client.Admin; kohort.client.sync.run waits for its methods"
_SERIALIZERS: Final = "pass confluent-kafka's own, or those of kohort.client.schema_registry"
_LISTENER: Final = "there are no listeners: the block of a generation ends when it is revoked"
_OTHER_CLIENTS: Final = {
    **dict.fromkeys(("AIOKafkaConsumer", "AIOConsumer", "AsyncConsumer"), _READERS),
    **dict.fromkeys(("KafkaConsumer", "SimpleConsumer"), _BLOCKING_READERS),
    **dict.fromkeys(("AIOKafkaProducer", "AIOProducer", "AsyncProducer"), _PRODUCER),
    **dict.fromkeys(("KafkaProducer", "SimpleProducer"), _BLOCKING_PRODUCER),
    **dict.fromkeys(("AdminClient", "KafkaAdminClient", "AIOKafkaAdminClient"), _ADMIN),
    **dict.fromkeys(
        ("KafkaClient", "AIOKafkaClient", "SimpleClient"), "it is kohort.client.Cluster"
    ),
    "DeserializingConsumer": f"{_READERS}; both have key_deserializer and value_deserializer",
    "SerializingProducer": f"{_PRODUCER}, with key_serializer and value_serializer",
    "SchemaRegistryClient": "it is kohort.client.schema_registry.SchemaRegistry",
    **dict.fromkeys(("AvroSerializer", "JSONSerializer", "ProtobufSerializer"), _SERIALIZERS),
    **dict.fromkeys(("AvroDeserializer", "JSONDeserializer", "ProtobufDeserializer"), _SERIALIZERS),
    "NewTopic": "Admin.create_topic(name, partitions=…) takes these values",
    "NewPartitions": "Admin.create_partitions(topic, count) takes these values",
    "ConsumerRebalanceListener": _LISTENER,
    **dict.fromkeys(("ConsumerRecord", "Message"), "it is kohort.client.Record"),
    "OffsetAndTimestamp": "it is kohort.client.Offset",
    "ConsumerGroupMetadata": "it is kohort.client.GroupMetadata",
    "OFFSET_BEGINNING": "it is kohort.client.EARLIEST",
    "OFFSET_END": "it is kohort.client.LATEST",
    **dict.fromkeys(("KafkaException", "KafkaTimeoutError"), "it is kohort.client.KohortError"),
    **dict.fromkeys(
        ("KafkaConnectionError", "NoBrokersAvailable"), "it is kohort.client.BrokerUnreachableError"
    ),
    "CommitFailedError": "it is kohort.client.CommitError",
    "IllegalStateError": "it is kohort.client.NotAssignedError",
}
"""Name in another client → what to use here."""


def missing(package: str, name: str) -> AttributeError | ImportError:
    """The error for a name that the package does not have, for its `__getattr__` to raise.

    `from package import name` asks for the attribute before it imports a submodule. An
    AttributeError would then be replaced by Python's own ImportError, which has no hint.
    """
    is_import = sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"
    if name.islower():
        hint = None if is_import else _hint_for_module(package, name)
    else:
        hint = _hint(package, name)
    if hint is None:
        text = f"module {package!r} has no attribute {name!r}"
        return AttributeError(text, name=name, obj=sys.modules[package])
    if is_import:
        return ImportError(f"cannot import name {name!r} from {package!r}; {hint}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}; {hint}")


def _hint_for_module(package: str, name: str) -> str | None:
    module = f"{package}.{name}"
    return f"import {module} first" if find_spec(module) else None


def _hint(package: str, name: str) -> str | None:
    if name in _OTHER_CLIENTS:
        return _OTHER_CLIENTS[name]
    if name in _ELSEWHERE:
        return f"it is {_ELSEWHERE[name]}.{name}"
    others = (module for module in _PACKAGES if module != package)
    package_with_name = next(
        (module for module in others if name in import_module(module).__all__), None
    )
    return f"it is {package_with_name}.{name}" if package_with_name else None
