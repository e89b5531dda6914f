"""Event loops and cancellation: one loop per client, one in the background, ends that finish."""

from kohort.client.concurrency.background import BackgroundLoop, background_loop, run, run_here
from kohort.client.concurrency.cancellation import to_its_end, uncancelled
from kohort.client.concurrency.event_loop import own_loop

__all__ = [
    "BackgroundLoop",
    "background_loop",
    "own_loop",
    "run",
    "run_here",
    "to_its_end",
    "uncancelled",
]
