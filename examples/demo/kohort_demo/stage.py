"""Displays of the show: live on a terminal, lines of text elsewhere, a picture for the docs."""

import re
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from kohort_demo.view import Note, Scene, view
from kohort_demo.waiting import LINE_SECONDS

PICTURE_WIDTH = 112
FETCHED_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Display:
    """A context manager; `show` takes every frame."""

    def __init__(self, console: Console, picture: Path | None) -> None:
        self._console = console
        self._picture = picture
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._noted: set[Note] = set()
        self._told = 0.0
        """When the last line was written: seconds since the members were started."""
        self._last: Scene | None = None
        self._telling: Scene | None = None

    def show(self, scene: Scene) -> None:
        if self._live is not None:
            self._live.update(view(scene, *self._console.size), refresh=True)
        else:
            # The server's journal may tell later of something that was earlier.
            for note in scene.notes:
                if note not in self._noted:
                    self._console.print(
                        f"{note.seconds:5.1f} s  {note.text}", markup=False, soft_wrap=True
                    )
                    self._told = scene.seconds
            self._noted.update(scene.notes)
            if scene.seconds - self._told >= LINE_SECONDS:
                self._told = scene.seconds
                group = scene.group
                self._console.print(
                    f"{scene.seconds:5.1f} s  {group.committed:,} of "
                    f"{group.committed + group.lag:,} records are committed",
                    markup=False,
                    soft_wrap=True,
                )
        self._last = scene
        if is_telling(scene):
            self._telling = scene

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
        scene = self._telling or self._last
        if kind is None and self._picture is not None and scene is not None:
            self._picture.parent.mkdir(parents=True, exist_ok=True)
            self._picture.write_text(svg(scene), encoding="utf-8")


def is_telling(scene: Scene) -> bool:
    """Whether this suits a still picture: a dead member still counted, one gone, others at work."""
    owners = {member.client_id for member in scene.group.members}
    return scene.group.state == "Stable" and any(name in owners for name in scene.killed)


def svg(scene: Scene) -> str:
    """The scene as rich exports it, without the fonts that it would fetch from elsewhere."""
    canvas = Console(
        record=True,
        width=PICTURE_WIDTH,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    canvas.print(view(scene, PICTURE_WIDTH))
    return FETCHED_FONT.sub("", canvas.export_svg(title="make run", unique_id="group"))
