"""Log lines: one line each, whatever is in them."""

import json
import logging
import sys

from hypothesis import given
from hypothesis import strategies as st

from kohort.server.logging import fields
from kohort.server.logging.formats import JsonFormatter, TextFormatter


def record(message: str, *, error: bool = False, **values: object) -> logging.LogRecord:
    info = None
    if error:
        try:
            raise ValueError("bad\nthing")
        except ValueError:
            info = sys.exc_info()
    made = logging.LogRecord("kohort.groups", logging.INFO, "file", 1, message, None, info)
    made.created, made.msecs = 1_700_000_000.25, 250.0
    made.__dict__.update(fields(**values))
    return made


def test_text_has_fields_behind_the_message() -> None:
    line = TextFormatter().format(
        record("rebalance", group="orders", generation=3, causes=["joined b"])
    )
    assert line == (
        "2023-11-14T22:13:20.250Z info    kohort.groups: rebalance group=orders "
        'generation=3 causes=["joined b"]'
    )


def test_json_has_fields_as_members() -> None:
    line = json.loads(JsonFormatter().format(record("rebalance", group="orders", generation=3)))
    assert line == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "kohort.groups",
        "event": "rebalance",
        "group": "orders",
        "generation": 3,
    }


def test_an_error_is_one_more_field_and_no_traceback() -> None:
    line = TextFormatter().format(record("failed", error=True))
    assert "error=" in line
    assert "ValueError" in line
    assert "\n" not in line
    assert "Traceback" not in line
    assert json.loads(JsonFormatter().format(record("failed", error=True)))["error"].startswith(
        "ValueError: bad"
    )


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in TextFormatter(traces=True).format(record("failed", error=True))
    assert (
        "Traceback"
        in json.loads(JsonFormatter(traces=True).format(record("failed", error=True)))["traceback"]
    )


@given(st.text(), st.text())
def test_values_chosen_by_clients_cannot_forge_a_line(message: str, value: str) -> None:
    made = record(message, group=value, members=[value])
    for formatter in (TextFormatter(), JsonFormatter()):
        assert len(formatter.format(made).splitlines()) == 1
