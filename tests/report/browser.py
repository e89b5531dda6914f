"""A headless Chromium that tests drive by its own protocol, over a pipe.

    with Browser() as browser:
        page = browser.open(path)
        page.evaluate("document.title")

Chromium reads commands from file descriptor 3 and writes to 4: JSON, each with a zero byte behind.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import pytest

PATIENCE_S = 120
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


needs_browser = pytest.mark.skipif(
    program() is None, reason=f"needs a browser: none of {', '.join(PROGRAMS)} is installed"
)


class Page:
    """A page that was opened, and what it did."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        self.messages: list[str] = []
        """Of the console and of the browser: errors, refused scripts and styles."""

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def note(self, method: str, parameters: Any) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            self.messages.append(json.dumps(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])


class Browser:
    """Context manager of a browser without a network."""

    def __enter__(self) -> Self:
        found = program()
        assert found is not None
        self._profile = TemporaryDirectory(ignore_cleanup_errors=True)
        command_read, self._commands = os.pipe()
        self._answers, answer_write = os.pipe()
        # Chromium wants these very numbers.
        script = f'exec 3<&{command_read} 4>&{answer_write}; exec "$@"'
        self._process = subprocess.Popen(
            [
                "bash", "-c", script, "-", found, "--headless", "--no-sandbox", "--disable-gpu",
                "--remote-debugging-pipe", "--hide-scrollbars", "--no-first-run",
                "--proxy-server=127.0.0.1:1", f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            pass_fds=(command_read, answer_write), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(command_read)
        os.close(answer_write)
        self._unread = b""
        self._next_id = 0
        self._pages: dict[str, Page] = {}
        self._events: list[tuple[str, str]] = []
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def open(self, path: Path) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + PATIENCE_S
        while (session, "Page.loadEventFired") not in self._events:
            self._take(self._read(deadline))
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        self._next_id += 1
        number = self._next_id
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self._read(deadline)).get("id") != number:
            self._take(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _take(self, event: dict[str, Any]) -> None:
        session = event.get("sessionId", "")
        if "method" in event:
            self._events.append((session, event["method"]))
        if session in self._pages and "method" in event:
            self._pages[session].note(event["method"], event["params"])

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select(
                [self._answers], [], [], max(deadline - time.monotonic(), 0)
            )
            assert ready, "the browser does not respond"
            part = os.read(self._answers, 1 << 16)
            assert part, "the browser ended"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)
