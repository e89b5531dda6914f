"""Messages between a worker and its parent, by a socket that is the worker's standard input.

The parent sends the setup, one line of JSON, and later perhaps `RELOAD`. The end of the stream
asks the worker to end, whoever closed it: a parent that is killed has no worker left. The worker
sends a line of JSON, its report, when it serves or cannot. Its event loop sends `ALIVE` every
`ALIVE_INTERVAL_S` from its start on, and `ENDING` before it closes: the last syncs may block the
loop for long. A worker that still imports its modules reads nothing, for seconds on a busy machine:
`END_UNSTARTED` ends it.
"""

import json
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kohort.server.cluster import Worker
from kohort.server.config import Config, RawSetting

RELOAD: Final = b"reload\n"
"""Asks for files to be read again, as SIGHUP does."""
ALIVE: Final = b"alive\n"
"""Heartbeat: the event loop of the worker runs."""
ENDING: Final = b"ending\n"
"""The worker closes: no `ALIVE` follows."""
ALIVE_INTERVAL_S: Final = 1.0
END_UNSTARTED: Final = signal.SIGUSR1
"""Ends a process by default; a worker ignores it from before the first effect of its setup."""
MAX_LINE: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker is and does."""

    worker: Worker
    config: Config

    def encode(self) -> bytes:
        """As one line."""
        worker = asdict(self.worker) | {"sockets": str(self.worker.sockets)}
        return json.dumps({"worker": worker, "settings": self.config.static}).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        decoded: dict[str, Any] = json.loads(line)
        worker = decoded["worker"]
        return cls(
            Worker(**worker | {"sockets": Path(worker["sockets"])}),
            Config.of(RawSetting(*setting) for setting in decoded["settings"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker says of its start."""

    refused: str | None = None
    """Why it cannot serve; None if it does."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Bound addresses by listener."""
    advertised: str = ""
    """Advertised address of the first listener."""
    cluster_id: str = ""

    def encode(self) -> bytes:
        """As one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        return cls(**json.loads(line))
