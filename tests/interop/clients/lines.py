"""The interface of every client program: `name=value` arguments, values on stdin, JSON lines out.

A program is called as `program consume|produce name=value…`. On SIGTERM it leaves in good order.

    all that it owns now, after every change; some clients add the member and its generation:
        {"event": "owns", "partitions": ["flights-0", …], "member": "a-1", "generation": 3}
    records that it processed:
        {"event": "records", "partition": "flights-0", "offsets": […], "values": […]}
    commits that the server acknowledged:
        {"event": "committed", "offsets": {"flights-0": 12, …}}
    a commit that failed; it is repeated:
        {"event": "failed", "what": "…"}
    closed; the process ends:
        {"event": "left"}
    Kohort's client only: a generation, and how a partition of it was taken away:
        {"event": "began", "generation": 3, "leads": true, "partitions": […]}
        {"event": "ended", "partition": "flights-0", "end": "revoked"}

Java and confluent-kafka: `poll_interval=MS` is the longest time between polls. After
`stall_after=RECORDS` a member with `stall=MS` is busy for that long, once.

Options of a login by SASL over TLS are `mechanism`, `username`, `secret` (the password, or the
token of OAUTHBEARER) and `cafile`; `security` is a file with the same as Java's properties.

Every line has `at`, nanoseconds of the machine's monotonic clock, so that lines of several
processes can be ordered. `produce` reads lines of KEY TAB VALUE, and ends with 0 only if the server
acknowledged every one. With several codecs (`codec=none,gzip`) every line goes out once with each,
to the topic that `topic={}-name` makes of it.
"""

import json
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any


class Wish:
    """Set once SIGTERM has asked the program to leave."""

    def __init__(self) -> None:
        self.leave = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.leave = True


def arguments() -> tuple[str, dict[str, str]]:
    """The mode and the named values of the command line."""
    return sys.argv[1], dict(value.split("=", 1) for value in sys.argv[2:])


def topics(options: Mapping[str, str]) -> dict[str, str]:
    """Codec -> the topic that takes the records compressed with it."""
    return {codec: options["topic"].replace("{}", codec) for codec in options["codec"].split(",")}


def say(event: str, **fields: Any) -> None:
    line = json.dumps({"event": event, "at": time.monotonic_ns(), **fields})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def owns(partitions: Iterable[tuple[str, int]], **member: Any) -> None:
    names = sorted(f"{topic}-{partition}" for topic, partition in partitions)
    say("owns", partitions=names, **member)


def records(topic: str, partition: int, offsets: list[int], values: list[bytes | None]) -> None:
    texts = [value.decode() if value is not None else None for value in values]
    say("records", partition=f"{topic}-{partition}", offsets=offsets, values=texts)


def committed(offsets: Mapping[tuple[str, int], int]) -> None:
    say(
        "committed",
        offsets={f"{topic}-{partition}": offset for (topic, partition), offset in offsets.items()},
    )


def keyed_line(line: bytes) -> tuple[bytes, bytes]:
    key, _, value = line.rstrip(b"\n").partition(b"\t")
    return key, value
