"""A fault that a test has set."""

from kohort.errors import KohortError
from kohort.testing.embedded import verbs
from kohort.testing.embedded.faults import FaultState
from kohort.testing.embedded.running_server import ControlledServer


class FaultHandle:
    """Reads a fault of a server."""

    def __init__(self, server: ControlledServer, state: FaultState) -> None:
        self._server = server
        self._number = state.number
        self._text = state.text

    def __str__(self) -> str:
        return self._text

    @property
    def met(self) -> int:
        """How many requests have met it. Raises KohortError after `clear_faults`."""
        for state in self._server.call(verbs.faults):
            if state.number == self._number:
                return state.met
        raise KohortError(f"the fault was removed by clear_faults: {self}")
