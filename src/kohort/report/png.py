"""Makes a PNG of an SVG, without a browser: by resvg, a renderer in Rust (`resvg_py`)."""

from functools import cache

import resvg_py

from kohort.errors import ConfigError

ZOOM = 2
"""Pixels of the PNG for each of the SVG, for screens that have twice as many."""
_WORD = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">'
    '<text x="2" y="16" font-family="{}" font-size="14">{}</text></svg>'
)


def png(svg: str) -> bytes:
    """The picture as a PNG. Raises ConfigError if the machine has no fonts."""
    if not _has_fonts():
        raise ConfigError(
            "a picture needs fonts, and this machine has none: install some, as "
            "fonts-dejavu-core of Debian, or leave --png out"
        )
    return resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM, sans_serif_family=_sans_serif())


@cache
def _has_fonts() -> bool:
    return any(_is_there(family) for family in (*_FAMILIES, "serif", "monospace", "sans-serif"))


_FAMILIES = ("DejaVu Sans", "Noto Sans", "Liberation Sans", "Helvetica", "Arial", "Segoe UI")


@cache
def _sans_serif() -> str | None:
    """resvg does not ask the system which font is its sans-serif one."""
    return next(filter(_is_there, _FAMILIES), None)


def _is_there(family: str) -> bool:
    """Whether text in this family is drawn at all."""
    empty, word = (_WORD.format(family, text) for text in ("", "M"))
    return resvg_py.svg_to_bytes(svg_string=empty) != resvg_py.svg_to_bytes(svg_string=word)
