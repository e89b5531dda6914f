"""A recording that an embedded server writes, as the test holds it."""

from pathlib import Path
from typing import Self

from kohort.testing.embedded import verbs
from kohort.testing.embedded.running_server import ControlledServer


class Recording:
    """Records from its creation to `stop`, to the end of its `with` block, or of the server."""

    def __init__(self, server: ControlledServer, path: Path, *, redact_values: bool) -> None:
        """Create the file. Raises RecordingError."""
        self.path = path.absolute()
        self._server = server
        server.call(verbs.start_recording, str(self.path), redact_values)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the recording. Idempotent. Raises RecordingError if it could not be written."""
        self._server.call(verbs.stop_recording, str(self.path))
