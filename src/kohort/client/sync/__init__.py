"""The client for programs without an event loop: scripts, Django, threads.

    from kohort.client.sync import Consumer, ConsumerGroup, Producer, run

The same client runs on an event loop in a thread of its own, one for each process. Everything else
of the client is reached by `run`:

    described = run(Admin(cluster).describe_groups(["orders"]))
"""

from kohort.client.background_loop import run
from kohort.client.sync.consumer import Consumer
from kohort.client.sync.group import ConsumerGroup
from kohort.client.sync.producer import Delivery, Producer

__all__ = ["Consumer", "ConsumerGroup", "Delivery", "Producer", "run"]
