"""Renders the page: one HTML file that loads nothing, whatever the names in it are.

Templates escape all text. A Content-Security-Policy allows the one style and the one script that
are here, by their hashes, and no request at all. The script needs no data but the page itself.
"""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kohort.report.charts import STYLES, Axis
from kohort.report.overview import SPARK_HEIGHT, Row
from kohort.report.style import style_sheet
from kohort.report.view import GroupView


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that is on a page."""

    title: str
    source: str
    """The directory, as its user named it."""
    made: str
    """When, as people read it."""
    version: str
    period: str
    summary: str
    rows: Sequence[Row]
    """Of the overview; none in a page of one group."""
    groups: Sequence[GroupView]
    """Those with charts, the worst first."""
    brief: Sequence[GroupView]
    """Those without."""


def render(page: Page) -> str:
    """The HTML of a page."""
    template = environment().get_template("page.html")
    script, style = _asset("page.js"), style_sheet()
    text = template.render(
        page=page,
        style=Markup(style),  # nosec B704  our own text
        script=Markup(script),  # nosec B704
        policy=_policy(style, script),
        spark_height=SPARK_HEIGHT,
        styles=range(STYLES),
        x=percent,
    )
    return text.strip() + "\n"


def percent(share: float) -> str:
    """A share of the width, as charts of the page have it."""
    return f"{share * 100:.5g}%"


@cache
def environment() -> Environment:
    """The templates; everything in them is escaped."""
    found = Environment(
        loader=PackageLoader("kohort.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["has_shades"] = _has_shades
    return found


def _has_shades(axis: Axis) -> bool:
    return bool(axis.shades)


@cache
def _asset(name: str) -> str:
    return (files("kohort.report") / "templates" / name).read_text(encoding="utf-8")


_POLICY: Final = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


def _policy(style: str, script: str) -> str:
    return f"{_POLICY}; style-src '{_digest(style)}'; script-src '{_digest(script)}'"


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
