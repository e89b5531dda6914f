"""The test kit: Kafka in the test process, as a process, simulated, and parts on a test's clock.

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
    from kohort.testing.simulation.faults import Fault
    from kohort.testing.simulation.runner import SimulationError, SimulationResult, simulate
    from kohort.testing.simulation.simulation import Simulation
    from kohort.testing.unittest_mixin import KafkaTestMixin

_MODULES: Final = {
    "AsyncEmbeddedKafka": "kohort.testing.embedded.async_embedded_kafka",
    "Bench": "kohort.testing.bench",
    "Call": "kohort.testing.bench",
    "EmbeddedKafka": "kohort.testing.embedded.embedded_kafka",
    "Fault": "kohort.testing.simulation.faults",
    "KafkaTestMixin": "kohort.testing.unittest_mixin",
    "Node": "kohort.testing.nodes",
    "Nodes": "kohort.testing.nodes",
    "RemoteKafka": "kohort.testing.control.remote_kafka",
    "ServerProcess": "kohort.testing.server_process",
    "ServerProcessError": "kohort.testing.server_process",
    "Simulation": "kohort.testing.simulation.simulation",
    "SimulationError": "kohort.testing.simulation.runner",
    "SimulationResult": "kohort.testing.simulation.runner",
    "simulate": "kohort.testing.simulation.runner",
}

__all__ = [
    "AsyncEmbeddedKafka",
    "Bench",
    "Call",
    "EmbeddedKafka",
    "Fault",
    "KafkaTestMixin",
    "Node",
    "Nodes",
    "RemoteKafka",
    "ServerProcess",
    "ServerProcessError",
    "Simulation",
    "SimulationError",
    "SimulationResult",
    "simulate",
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
