"""Advances a server from timer to timer."""

from collections.abc import Callable

from kohort.testing.embedded import arguments, verbs
from kohort.testing.embedded.running_server import ControlledServer


def advance_until(
    server: ControlledServer, predicate: Callable[[], object], at_most_s: float
) -> None:
    """Advance from timer to timer until `predicate` returns true.

    Raises AssertionError after `at_most_s` seconds of the server's time.
    """
    arguments.function("predicate", predicate)
    arguments.seconds("at_most_seconds", at_most_s)
    end = server.call(verbs.time) + at_most_s
    while not predicate():
        if server.call(verbs.time) >= end:
            raise AssertionError(
                f"not reached within {at_most_s:g} s of the server's time:\n{server.timeline}"
            )
        server.run(verbs.advance_to_next_timer, end)
