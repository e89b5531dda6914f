"""What happened in a simulation: every message in the trace, and the story in the timeline."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kohort.testing.simulation.frames import Message
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.process import current_process

_MAX_SHOWN = 80
"""Lines of the timeline in the text of a failure."""


class Timeline:
    """Events with their simulated time, in order."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.is_over = False
        """Whether nothing is added any more."""
        self._loop = loop
        self._trace: list[str] = []
        self._story: list[str] = []

    def add(self, text: str) -> None:
        """Note an event of the story."""
        if not self.is_over:
            line = f"{self._loop.time():12.6f} {text}"
            self._trace.append(line)
            self._story.append(line)

    def add_message(self, message: Message, outcome: str = "") -> None:
        """Note a message that has arrived, in the trace alone unless it has an `outcome`."""
        if self.is_over:
            return
        arrow = "<-" if message.is_response else "->"
        text = f"{message.host} {arrow} kafka {message.api} #{message.correlation_id}"
        if outcome:
            self.add(f"{text} {outcome}")
        else:
            self._trace.append(f"{self._loop.time():12.6f} {text} {len(message.frame)} bytes")

    @property
    def trace(self) -> str:
        """All events, with one line for each message."""
        return "\n".join(self._trace)

    def __str__(self) -> str:
        """The story; of a long one its end."""
        omitted = len(self._story) - _MAX_SHOWN
        head = [f"{'…':>12} {omitted} earlier events"] if omitted > 0 else []
        return "\n".join([*head, *self._story[-_MAX_SHOWN:]])


class _Lines(logging.Handler):
    """Adds log lines to a timeline."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline

    def emit(self, record: logging.LogRecord) -> None:
        process = current_process.get(None)
        who = "scenario" if process is None else process.name
        self._timeline.add(f"{who}: {record.getMessage()}")


@contextmanager
def logged_in(timeline: Timeline) -> Iterator[None]:
    """Add log lines of Kohort to the timeline instead of showing them."""
    kohort, group = logging.getLogger("kohort"), logging.getLogger("kohort.client.group")
    before = kohort.propagate, kohort.level, group.level
    handler = _Lines(timeline)
    kohort.addHandler(handler)
    kohort.propagate = False
    kohort.setLevel(logging.WARNING)
    group.setLevel(logging.INFO)
    try:
        yield
    finally:
        kohort.removeHandler(handler)
        kohort.propagate = before[0]
        kohort.setLevel(before[1])
        group.setLevel(before[2])
