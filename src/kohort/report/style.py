"""Colours of members, and the style sheets of the page and of the picture.

The eight colours are Okabe's and Ito's, which colour-blind people tell apart, as light as dark text
on them needs (a contrast of 4.5). Members after the eighth have stripes, and then dots. Names stand
in the bands and in the legend: no colour is the only sign of anything.
"""

from functools import cache
from importlib.resources import files
from typing import Final

COLOURS: Final = (
    "#7cc3f0", "#f0ab3a", "#4cc39a", "#f2e35c", "#8fa8f0", "#f58a5b", "#e09ac2", "#c3c3bd",
)  # fmt: skip
"""Sky, orange, green, yellow, blue, vermilion, purple, grey."""
LIGHT: Final = {
    "ink": "#1d2329", "soft": "#59636e", "faint": "#d8dee4", "paper": "#ffffff", "panel": "#f6f8fa",
    "lane": "#eef1f4", "link": "#0b5cad", "line": "#0b5cad", "second": "#a34708", "area": "#bcd8f2",
    "error": "#b3261e", "warning": "#8a5300", "info": "#0b5cad", "none": "#2d6a3e",
    "mark": "#8c959f", "hatch": "#9aa4ae",
}  # fmt: skip
DARK: Final = {
    "ink": "#e6edf3", "soft": "#a3adb8", "faint": "#39414a", "paper": "#12161b", "panel": "#1a2027",
    "lane": "#222932", "link": "#7ab8f5", "line": "#7ab8f5", "second": "#f0a35e", "area": "#24486b",
    "error": "#ff8a80", "warning": "#f2b84b", "info": "#7ab8f5", "none": "#7fcf98",
    "mark": "#66717d", "hatch": "#5b6670",
}  # fmt: skip
"""The same for a dark screen."""


@cache
def style_sheet() -> str:
    """The style sheet of the page."""
    light = "".join(f"--{name}:{colour};" for name, colour in LIGHT.items())
    dark = "".join(f"--{name}:{colour};" for name, colour in DARK.items())
    chosen = (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"@media print{{:root{{color-scheme:light;{light}}}}}\n"
    )
    return chosen + _members() + _asset("charts.css") + _asset("page.css")


@cache
def picture_style() -> str:
    """The style sheet of a picture, which has the light colours and knows no variables."""
    text = _members() + _asset("charts.css")
    for name, colour in LIGHT.items():
        text = text.replace(f"var(--{name})", colour)
    return text


def _members() -> str:
    fills = (f".m{number}{{fill:{colour}}}" for number, colour in enumerate(COLOURS))
    patterns = (f".m{number}{{fill:url(#m{number})}}" for number in range(8, 24))
    return "\n".join([*fills, *patterns, ""])


def _asset(name: str) -> str:
    return (files("kohort.report") / "templates" / name).read_text(encoding="utf-8")
