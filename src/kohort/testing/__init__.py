"""The test kit: a server process; the group coordinator, and nodes of a cluster, on test clocks.

    from kohort.testing import Bench, ServerProcess

The names here are the public ones. Each is imported from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kohort.testing.bench import Bench, Call
    from kohort.testing.nodes import Node, Nodes
    from kohort.testing.server_process import ServerProcess, ServerProcessError

_MODULES: Final = {
    "Bench": "kohort.testing.bench",
    "Call": "kohort.testing.bench",
    "Node": "kohort.testing.nodes",
    "Nodes": "kohort.testing.nodes",
    "ServerProcess": "kohort.testing.server_process",
    "ServerProcessError": "kohort.testing.server_process",
}

__all__ = ["Bench", "Call", "Node", "Nodes", "ServerProcess", "ServerProcessError"]

# Type checkers take a module with __getattr__ for one that has any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            from kohort.util.missing_names import missing

            raise missing(__name__, name)
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
