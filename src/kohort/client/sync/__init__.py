"""The client for programs without an event loop: scripts, Django, threads.

    from kohort.client.sync import Consumer, ConsumerGroup, Producer, run

The same client runs on an event loop in a thread of its own, one for each process. Everything else
of the client is reached by `run`:

    described = run(Admin(cluster).describe_groups(["orders"]))
"""

from typing import TYPE_CHECKING, Any

from kohort.client.concurrency import run
from kohort.client.sync.consumer import Consumer
from kohort.client.sync.group import ConsumerGroup
from kohort.client.sync.producer import Delivery, Producer

__all__ = ["Consumer", "ConsumerGroup", "Delivery", "Producer", "run"]

# Type checkers take a module with __getattr__ for one that has any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from kohort.util.missing_names import missing

        raise missing(__name__, name)
