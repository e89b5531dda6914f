"""The test kit: Kafka in the test process, as a process, and its parts on clocks of the test.

    from kohort.testing import EmbeddedKafka

The names here are the public ones. Each is imported from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kohort.testing.bench import Bench, Call
    from kohort.testing.control.remote_kafka import RemoteKafka
    from kohort.testing.embedded.async_embedded_kafka import AsyncEmbeddedKafka
    from kohort.testing.embedded.embedded_kafka import EmbeddedKafka
    from kohort.testing.nodes import Node, Nodes
    from kohort.testing.server_process import ServerProcess, ServerProcessError
    from kohort.testing.unittest_mixin import KafkaTestMixin

_MODULES: Final = {
    "AsyncEmbeddedKafka": "kohort.testing.embedded.async_embedded_kafka",
    "Bench": "kohort.testing.bench",
    "Call": "kohort.testing.bench",
    "EmbeddedKafka": "kohort.testing.embedded.embedded_kafka",
    "KafkaTestMixin": "kohort.testing.unittest_mixin",
    "Node": "kohort.testing.nodes",
    "Nodes": "kohort.testing.nodes",
    "RemoteKafka": "kohort.testing.control.remote_kafka",
    "ServerProcess": "kohort.testing.server_process",
    "ServerProcessError": "kohort.testing.server_process",
}

__all__ = [
    "AsyncEmbeddedKafka",
    "Bench",
    "Call",
    "EmbeddedKafka",
    "KafkaTestMixin",
    "Node",
    "Nodes",
    "RemoteKafka",
    "ServerProcess",
    "ServerProcessError",
]

# Type checkers take a module with __getattr__ for one that has any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            from kohort.util.missing_names import missing

            raise missing(__name__, name)
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
