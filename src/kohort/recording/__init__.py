"""Records the traffic between clients and a Kafka, and replays it.

`Recorder` writes a file from the frames of connections. `Proxy` is a recorder between any client
and any Kafka. `replay` sends the requests of a file to a server, and compares the responses.
"""

from kohort.recording.differences import Difference
from kohort.recording.events import (
    Advanced,
    Closed,
    Event,
    Opened,
    RecordedRequest,
    RecordedResponse,
)
from kohort.recording.proxy import Proxy
from kohort.recording.recorder import Recorder
from kohort.recording.recording_file import (
    RecordingError,
    RecordingReader,
    RecordingWriter,
)
from kohort.recording.replay import Pace, RealTime, ReplayResult, replay

__all__ = [
    "Advanced",
    "Closed",
    "Difference",
    "Event",
    "Opened",
    "Pace",
    "Proxy",
    "RealTime",
    "RecordedRequest",
    "RecordedResponse",
    "Recorder",
    "RecordingError",
    "RecordingReader",
    "RecordingWriter",
    "ReplayResult",
    "replay",
]
